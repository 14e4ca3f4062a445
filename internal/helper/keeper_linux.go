package helper

import (
	"context"
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
	Files    int `json:"files"` // descriptors handed over, the standard three too
}

// Keeper is an owner's handle of a launch's keeper.
type Keeper struct {
	PID int // not collected before Begin, or Close: until then it is the keeper's own
	*Conn
	proc  *host.Process
	extra int
	watch sync.Once

	done    chan struct{} // closed when our child is collected
	cmd     *exec.Cmd     // our child, or
	starter *starter      // child of a starter
	logFD   int           // the log's pipe, as the starter has it
}

// Ends waits until the keeper has ended, and is collected if that is ours to do.
func (k *Keeper) Ends(ctx context.Context) error {
	if k.cmd == nil {
		return k.proc.WaitExit(ctx)
	}
	select {
	case <-k.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Forget closes the handle by which the keeper's end is seen.
func (k *Keeper) Forget() { k.proc.Close() }

// StartKeeper starts the keeper of a launch, which waits for Begin. std and
// extra are the leader's files; a nil one is the null device. log is the read
// end of the pipe for the spec's log, if it has one. session says if
// the keeper leaves our session, which it must not on a terminal; survive, that
// it is to be no child of ours.
func (b Binary) StartKeeper(id proof.ID, name string, std [3]*os.File, extra []*os.File, log *os.File, self *host.Process, session, survive bool) (*Keeper, error) {
	files := keeperExtra + len(extra)
	if log != nil {
		files++
	}
	c, err := b.command("keeper", keeperArgs{OwnerPID: os.Getpid(), Files: files}, "of", id.Short(), name)
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
	handed := append([]*os.File{theirs, pidfd}, extra...)
	if log != nil {
		handed = append(handed, log)
	}
	k := &Keeper{Conn: newConn(ours), extra: len(extra), done: make(chan struct{})}
	if survive && session && !adoptsOrphans() {
		err = k.viaStarter(b, c, std, handed)
	} else {
		setStdio(c, std)
		c.Dir = "" // where we are, so that what is relative means the same; it leaves after the start
		c.ExtraFiles = handed
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: session, Setpgid: !session}
		CleanMask(func() { err = c.Start() })
		if err == nil {
			k.cmd, k.PID = c, c.Process.Pid
		}
	}
	if err == nil {
		if k.proc, err = host.Open(k.PID); err != nil { // not collected yet
			k.collect()
		}
	}
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	return k, nil
}

// viaStarter starts the keeper as the child of a starter.
func (k *Keeper) viaStarter(b Binary, c *exec.Cmd, std [3]*os.File, files []*os.File) (err error) {
	if k.starter, err = b.startStarter(std, files); err != nil {
		return err
	}
	o := starterOrder{Std: true, SID: true}
	for i := range files {
		o.Fds = append(o.Fds, starterFiles+i)
	}
	k.logFD = o.Fds[len(o.Fds)-1]
	if k.PID, err = k.starter.start(c, o); err != nil {
		k.starter.letGo()
	}
	return err
}

// setStdio sets a helper's standard files; a nil one is the null device.
func setStdio(c *exec.Cmd, std [3]*os.File) {
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

// collect collects the keeper when it has ended; that of a starter is collected
// by others, and the starter now.
func (k *Keeper) collect() {
	k.watch.Do(func() {
		if k.starter != nil {
			k.starter.letGo()
			return
		}
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
