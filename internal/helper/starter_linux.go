package helper

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"github.com/custody-project/custody/internal/host"
	"golang.org/x/sys/unix"
)

// The keeper of a launch that outlives its owner is no child of the owner: it
// would have to be collected by somebody who is long closed. So a starter
// stands between, whose only work it is to start keeper and spare and to end:
// they are orphans from then on, and collected by whoever collects orphans.
//
// An owner that collects orphans itself (PID 1, or a subreaper) would get them
// back: there they are children as any others.

// starter is an owner's end of the talk with its starter.
type starter struct {
	cmd  *exec.Cmd
	conn *Conn
}

// starterOrder is an owner's order: one more process.
type starterOrder struct {
	Args [][]byte `json:"args"`
	Env  [][]byte `json:"env"`
	Fds  []int    `json:"fds"` // of the starter; the process has them from 3 on
	Of   int      `json:"of"`  // pid of an earlier one, whose pidfd comes last
	Std  bool     `json:"std"` // it has the starter's input and output
	SID  bool     `json:"sid"` // it leads a session of its own, else a group
}

// starterAnswer is what came of it.
type starterAnswer struct {
	PID int    `json:"pid"`
	Err string `json:"err,omitempty"`
}

// File descriptors of a starter. Its standard three are the leader's.
const (
	starterConn  = 3 // socket: orders in, answers out
	starterFiles = 4 // what is handed on
)

// adoptsOrphans reports whether orphans below this process come to it.
func adoptsOrphans() bool {
	var on int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&on)), 0, 0, 0)
	return os.Getpid() == 1 || err != nil || on != 0
}

// startStarter starts a starter that has these files, from starterFiles on.
func (b Binary) startStarter(std [3]*os.File, files []*os.File) (*starter, error) {
	c, err := b.command("starter", nil)
	if err != nil {
		return nil, err
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start starter: socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "starter"), os.NewFile(uintptr(fds[1]), "starter")
	defer theirs.Close()
	setStdio(c, std)
	c.Dir = ""
	c.ExtraFiles = append([]*os.File{theirs}, files...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	CleanMask(func() { err = c.Start() })
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start starter: %w", err)
	}
	return &starter{cmd: c, conn: newConn(ours)}, nil
}

// start starts one process. Its number is its own until the starter is let go.
func (s *starter) start(c *exec.Cmd, o starterOrder) (int, error) {
	o.Args, o.Env = bytesOf(c.Args), bytesOf(c.Env)
	var a starterAnswer
	err := s.conn.enc.Encode(o)
	if err == nil {
		err = s.conn.dec.Decode(&a)
	}
	if err == nil && a.Err != "" {
		err = fmt.Errorf("%s", a.Err)
	}
	return a.PID, err
}

// letGo lets the starter end, and collects it.
func (s *starter) letGo() {
	s.conn.Close()
	s.cmd.Wait()
}

// serveStarter is the role.
func serveStarter([]byte) int {
	syscall.CloseOnExec(starterConn)
	conn := newConn(os.NewFile(starterConn, "owner"))
	files := map[int]*os.File{}
	for {
		var o starterOrder
		if conn.dec.Decode(&o) != nil {
			return 0 // let go of, or the owner has died: what it began ends by itself
		}
		var a starterAnswer
		var err error
		if a.PID, err = o.run(files); err != nil {
			a.Err = err.Error()
		}
		if conn.enc.Encode(a) != nil {
			return 0
		}
	}
}

func (o starterOrder) run(files map[int]*os.File) (int, error) {
	c := &exec.Cmd{Path: selfExe, Args: stringsOf(o.Args), Env: stringsOf(o.Env), SysProcAttr: &syscall.SysProcAttr{Setsid: o.SID, Setpgid: !o.SID}}
	if o.Std {
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	} else {
		c.Dir = "/"
	}
	for _, fd := range o.Fds {
		if files[fd] == nil { // kept, or the collector closes it
			syscall.CloseOnExec(fd)
			files[fd] = os.NewFile(uintptr(fd), "file")
		}
		c.ExtraFiles = append(c.ExtraFiles, files[fd])
	}
	if o.Of != 0 {
		p, err := host.Open(o.Of) // our child, which nobody collects
		if err != nil {
			return 0, err
		}
		defer p.Close()
		f, err := selfFile(p)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	var err error
	CleanMask(func() { err = c.Start() })
	if err != nil {
		return 0, err
	}
	return c.Process.Pid, nil
}
