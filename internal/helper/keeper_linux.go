package helper

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// File descriptors of a keeper. Its standard three are the leader's.
const (
	keeperControl = 3 // socket: the spec in, events out
	keeperOwner   = 4 // pidfd of the owner
	keeperExtra   = 5 // the leader's further files
)

type keeperArgs struct {
	OwnerPID int `json:"owner_pid"`
}

// Keeper is an owner's handle of a launch's keeper.
type Keeper struct {
	PID int // not collected before Begin, or Close: until then it is the keeper's own
	*Conn
	cmd   *exec.Cmd
	extra int
	watch sync.Once
	done  chan struct{}
}

// Done is closed when the keeper has ended.
func (k *Keeper) Done() <-chan struct{} { return k.done }

// StartKeeper starts the keeper of a launch, which waits for Begin. std and
// extra are the leader's files; a nil one is the null device. log is the read
// end of the pipe for the spec's log, if it has one. session says if
// the keeper leaves our session, which it must not on a terminal.
func (b Binary) StartKeeper(id proof.ID, name string, std [3]*os.File, extra []*os.File, log *os.File, self *host.Process, session bool) (*Keeper, error) {
	c, err := b.command("keeper", keeperArgs{OwnerPID: os.Getpid()}, "of", id.Short(), name)
	if err != nil {
		return nil, err
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("start keeper: socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	pidfd, err := selfFile(self)
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	defer pidfd.Close()
	// A nil *os.File in an io.Reader is not nil.
	if std[0] != nil {
		c.Stdin = std[0]
	}
	if std[1] != nil {
		c.Stdout = std[1]
	}
	if std[2] != nil {
		c.Stderr = std[2]
	}
	c.Dir = "" // where we are, so that what is relative means the same; it leaves after the start
	c.ExtraFiles = append([]*os.File{theirs, pidfd}, extra...)
	if log != nil {
		c.ExtraFiles = append(c.ExtraFiles, log)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: session, Setpgid: !session}
	CleanMask(func() { err = c.Start() })
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	return &Keeper{PID: c.Process.Pid, Conn: newConn(ours), cmd: c, extra: len(extra), done: make(chan struct{})}, nil
}

// Begin hands the keeper its spec: it starts the leader.
func (k *Keeper) Begin(spec Spec) error {
	spec.Extra = k.extra
	k.collect()
	if err := k.enc.Encode(spec.pack()); err != nil {
		k.Close()
		return fmt.Errorf("start keeper: %w", err)
	}
	return nil
}

// Close closes the owner's end. A keeper that was not told to begin ends.
func (k *Keeper) Close() error {
	k.collect()
	return k.Conn.Close()
}

// collect waits for the keeper's end.
func (k *Keeper) collect() {
	k.watch.Do(func() {
		go func() {
			k.cmd.Wait()
			close(k.done)
		}()
	})
}

// selfFile returns a file for a child to inherit our pidfd by.
func selfFile(self *host.Process) (*os.File, error) {
	d, err := self.Dup()
	if err != nil {
		return nil, err
	}
	var f *os.File
	err = d.Use(func(fd int) error {
		f = os.NewFile(uintptr(fd), "owner")
		return nil
	})
	return f, err
}
