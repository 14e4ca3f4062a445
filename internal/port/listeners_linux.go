package port

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/custody-project/custody/internal/host"
	"golang.org/x/sys/unix"
)

// Which sockets listen on a port. The kernel is asked by sock_diag(7), which
// filters by port and state itself: one answer, however many connections there
// are. Where that is not to be had, and for the network namespace of another
// process, /proc/PID/net/tcp is read.

// namespace is a network namespace, seen through a process in it.
type namespace struct {
	proc *host.Process // nil: our own
}

var ours namespace

// listeners lists the listening sockets of a port, on any address, by inode.
func (n namespace) listeners(port int) ([]Socket, error) {
	if err := Check(port); err != nil {
		return nil, err
	}
	if n.proc == nil && !host.Without("sockdiag") {
		socks, err := diag(port)
		if err == nil {
			return sorted(socks), nil
		}
		// A container may forbid it, a kernel lack it: /proc remains.
	}
	dir := "/proc/thread-self"
	if n.proc != nil {
		dir = "/proc/" + strconv.Itoa(n.proc.PID())
	}
	var socks []Socket
	for _, name := range []string{"/net/tcp", "/net/tcp6"} {
		s, err := readTCP(dir+name, port)
		if n.proc != nil && n.proc.Numbered() != nil {
			return nil, fmt.Errorf("listeners on port %d: process %d: %w", port, n.proc.PID(), os.ErrProcessDone)
		}
		if errors.Is(err, fs.ErrNotExist) && name == "/net/tcp6" {
			continue // no IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("listeners on port %d: %w", port, err)
		}
		socks = append(socks, s...)
	}
	return sorted(socks), nil
}

const tcpListen = 10 // TCP_LISTEN, <net/tcp_states.h>

// diag asks sock_diag(7) for both families.
func diag(port int) ([]Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		return nil, fmt.Errorf("sock_diag: %w", err)
	}
	var socks []Socket
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		s, err := dump(fd, family, port)
		if err != nil {
			return nil, fmt.Errorf("sock_diag: %w", err)
		}
		socks = append(socks, s...)
	}
	return socks, nil
}

// dump is one dump of SOCK_DIAG_BY_FAMILY; struct inet_diag_req_v2 and
// inet_diag_msg are in <linux/inet_diag.h>.
func dump(fd int, family uint8, port int) ([]Socket, error) {
	const header, request = 16, 56
	req := make([]byte, header+request)
	e := binary.NativeEndian
	e.PutUint32(req[0:], uint32(len(req)))
	e.PutUint16(req[4:], unix.SOCK_DIAG_BY_FAMILY)
	e.PutUint16(req[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	r := req[header:]
	r[0], r[1] = family, unix.IPPROTO_TCP
	e.PutUint32(r[4:], 1<<tcpListen)
	binary.BigEndian.PutUint16(r[8:], uint16(port)) // the source port filters
	if err := unix.Sendto(fd, req, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var socks []Socket
	buf := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		for b := buf[:n]; len(b) >= header; {
			size := int(e.Uint32(b))
			if size < header || size > len(b) {
				return nil, errors.New("a message of odd length")
			}
			body := b[header:size]
			if e.Uint16(b[6:])&unix.NLM_F_DUMP_INTR != 0 {
				return nil, errors.New("the list changed while it was read")
			}
			switch e.Uint16(b[4:]) {
			case unix.NLMSG_DONE:
				return socks, nil
			case unix.NLMSG_ERROR:
				if len(body) < 4 {
					return nil, errors.New("an error without a number")
				}
				return nil, unix.Errno(-int32(e.Uint32(body)))
			case unix.SOCK_DIAG_BY_FAMILY:
				if s, ok := parseDiag(body, port); ok {
					socks = append(socks, s)
				}
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

// parseDiag reads one struct inet_diag_msg.
func parseDiag(b []byte, port int) (Socket, bool) {
	if len(b) < 72 || b[1] != tcpListen || int(binary.BigEndian.Uint16(b[4:])) != port {
		return Socket{}, false
	}
	addr := netip.AddrFrom4([4]byte(b[8:12]))
	if b[0] == unix.AF_INET6 {
		addr = netip.AddrFrom16([16]byte(b[8:24]))
	}
	e := binary.NativeEndian
	return Socket{Inode: uint64(e.Uint32(b[68:])), UID: int(e.Uint32(b[64:])), Addr: netip.AddrPortFrom(addr, uint16(port))}, true
}

// readTCP reads a file of proc_net(5). The kernel lists the listening sockets
// first (net/ipv4/tcp_ipv4.c, tcp_get_idx), so what follows them is not read.
func readTCP(path string, port int) ([]Socket, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var socks []Socket
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode …
		w := strings.Fields(lines.Text())
		if len(w) < 10 || w[0] == "sl" {
			continue
		}
		if w[3] != "0A" {
			break
		}
		if s, ok := parseTCP(w, port); ok {
			socks = append(socks, s)
		}
	}
	return socks, lines.Err()
}

func parseTCP(w []string, port int) (Socket, bool) {
	ip, num, _ := strings.Cut(w[1], ":")
	if n, err := strconv.ParseUint(num, 16, 16); err != nil || int(n) != port {
		return Socket{}, false
	}
	b, err := hex.DecodeString(ip)
	if err != nil {
		return Socket{}, false
	}
	for i := 0; i+4 <= len(b); i += 4 { // each word as the machine has it
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return Socket{}, false
	}
	uid, err1 := strconv.Atoi(w[7])
	inode, err2 := strconv.ParseUint(w[9], 10, 64)
	return Socket{Inode: inode, UID: uid, Addr: netip.AddrPortFrom(addr, uint16(port))}, err1 == nil && err2 == nil
}
