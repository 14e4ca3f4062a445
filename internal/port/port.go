// Package port asks the kernel about TCP ports: can this one be bound, which
// processes listen on it, and do they belong to a launch. A port is no
// identity: an answer on it may come from a dying predecessor or from a
// stranger, so the way goes from the listening socket to the processes that
// hold it, and each of those is proven like any other member.
//
// Only listeners count. Who merely has a connection to a port is never named.
package port

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/custody-project/custody/internal/host"
)

// ErrHeld is matched by the error of Free for a port that somebody holds.
var ErrHeld = errors.New("it is held")

// Check returns an error unless port is a TCP port: 1 to 65535.
func Check(port int) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("port %d: want 1 to 65535", port)
	}
	return nil
}

// Socket is one listening socket.
type Socket struct {
	Inode uint64
	UID   int // the user that made it
	Addr  netip.AddrPort
}

// Holder is one process that holds a listening socket.
type Holder struct {
	Socket
	PID     int      // 0 if it can't be seen: it is another user's, or in another PID namespace
	Command []string // as it shows it now; empty where that can't be seen
	Proc    *host.Process
}

// String names the holder for people.
func (h Holder) String() string {
	if h.PID == 0 {
		return fmt.Sprintf("a process that we can't see (its socket is of uid %d)", h.UID)
	}
	if len(h.Command) == 0 {
		return fmt.Sprintf("process %d", h.PID)
	}
	line := []rune(strings.Join(h.Command, " "))
	if len(line) > 80 {
		line = append(line[:80], '…')
	}
	return fmt.Sprintf("process %d (%s)", h.PID, string(line))
}

// Holders lists who listens on a port of our network namespace, on any
// address. Close closes their handles.
//
// The error matches errors.ErrUnsupported on other systems than Linux.
func Holders(port int) ([]Holder, error) {
	socks, err := ours.listeners(port)
	if err != nil || len(socks) == 0 {
		return nil, err
	}
	return holders(socks)
}

// Listening reports whether anybody listens on a port of our network
// namespace: one question to the kernel, and no walk over processes.
func Listening(port int) (bool, error) {
	socks, err := ours.listeners(port)
	return len(socks) > 0, err
}

// Close closes the handles of holders.
func Close(hs []Holder) {
	for _, h := range hs {
		if h.Proc != nil {
			h.Proc.Close()
		}
	}
}

// holders finds the processes behind listening sockets. One that ended, or let
// go of the socket, before it could be opened is none.
func holders(socks []Socket) ([]Holder, error) {
	found, err := holding(socks)
	if err != nil {
		return nil, err
	}
	var out []Holder
	for _, s := range socks {
		seen := false
		for _, pid := range found[s.Inode] {
			p, err := host.Open(pid)
			if err != nil {
				continue
			}
			// By the number it was found; now that it is opened, it must hold
			// the socket still, and the number mean it still.
			if holds, err := holdsNow(pid, s.Inode); err != nil || !holds || p.Numbered() != nil {
				p.Close()
				continue
			}
			args, _ := p.Command() // its line may be out of our sight
			out = append(out, Holder{Socket: s, PID: pid, Command: args, Proc: p})
			seen = true
		}
		if !seen {
			out = append(out, Holder{Socket: s})
		}
	}
	return out, nil
}

func sorted(socks []Socket) []Socket {
	slices.SortFunc(socks, func(a, b Socket) int { return cmp.Compare(a.Inode, b.Inode) })
	return socks
}
