package helper

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/custody-project/custody/internal/host"
	"golang.org/x/sys/unix"
)

// Some things the leader must do itself before it becomes the command. The
// leader of a launch on a terminal must be the terminal's foreground group
// before its first instruction, or its first read stops it. And where a cgroup
// can't be entered by clone, the leader must have joined it before it can
// fork. So the keeper forks this role, which does that and then becomes the
// command.

type enterArgs struct {
	Status int    `json:"status"`         // descriptor of the status socket
	Front  bool   `json:"front"`          // take the terminal
	Join   []byte `json:"join,omitempty"` // cgroup.procs file to join by

	path string
	args []string
}

// enterCommand is what to become. It comes over the status socket, as one
// line: the role's own arguments are for ps, and a variable of the environment
// holds no long command line (128 KiB on Linux).
type enterCommand struct {
	Path []byte   `json:"path"`
	Args [][]byte `json:"args"`
}

// tell writes the command to a role.
func tell(r *os.File, path string, args []string) {
	// A role that died meanwhile says so by its end.
	json.NewEncoder(r).Encode(enterCommand{Path: []byte(path), Args: bytesOf(args)})
}

// hear reads the command from the status socket, and nothing beyond it.
func (a *enterArgs) hear(status *os.File) error {
	line, err := bufio.NewReader(status).ReadBytes('\n')
	if err != nil {
		return err
	}
	var c enterCommand
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	a.path, a.args = string(c.Path), stringsOf(c.Args)
	return nil
}

// via rewrites c to run through a role of this program, which reports over a
// socket: ours and the role's end are returned.
func via(role string, c *exec.Cmd, args func(status int) any) (r, w *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "status"), os.NewFile(uintptr(fds[1]), "status")
	b := Binary{path: selfExe}
	e, err := b.command(role, args(3+len(c.ExtraFiles)))
	if err != nil {
		return nil, nil, err
	}
	// The command's environment is the leader's own; the role's variables come
	// first and are taken out again.
	c.Env = append(append([]string{}, e.Env[0], e.Env[1]), c.Env...)
	c.Path, c.Args = selfExe, e.Args
	c.ExtraFiles = append(c.ExtraFiles, w)
	return r, w, nil
}

// viaEnter runs c through the role. failed is called after the start: it waits
// for the execve and returns its error.
func viaEnter(c *exec.Cmd, front bool, join string) (failed func() error, err error) {
	path, args := c.Path, c.Args
	r, w, err := via("enter", c, func(status int) any {
		return enterArgs{Status: status, Front: front, Join: []byte(join)}
	})
	if err != nil {
		return nil, err
	}
	return func() error {
		w.Close()
		defer r.Close()
		tell(r, path, args)
		b, err := io.ReadAll(r)
		if err != nil || len(b) == 0 {
			return err
		}
		return execError(path, string(b))
	}, nil
}

// execError is the error of an execve in a role, as exec.Cmd.Start returns it.
func execError(path, report string) error {
	var no int
	if _, err := fmt.Sscanf(report, "%d", &no); err != nil {
		return fmt.Errorf("start %s: %s", path, report)
	}
	return &os.PathError{Op: "fork/exec", Path: path, Err: syscall.Errno(no)}
}

// enter is the role.
func enter(raw []byte) int {
	var a enterArgs
	if err := json.Unmarshal(raw, &a); err != nil {
		return 125
	}
	status := os.NewFile(uintptr(a.Status), "status")
	syscall.CloseOnExec(a.Status)
	if err := a.hear(status); err != nil {
		return 125 // the keeper died
	}
	if err := a.arrive(); err != nil {
		fmt.Fprint(status, err)
		return 126
	}
	err := becomeCommand(a.path, a.args)
	no, _ := err.(syscall.Errno)
	fmt.Fprintf(status, "%d", int(no))
	return 126
}

func (a enterArgs) arrive() error {
	if len(a.Join) > 0 {
		if err := os.WriteFile(string(a.Join), []byte("0"), 0); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	if !a.Front {
		return nil
	}
	tty, err := host.OpenTerminal()
	if err != nil {
		return fmt.Errorf("take the terminal: %w", err)
	}
	defer tty.Close()
	if err := tty.SetForeground(host.OurGroup()); err != nil {
		return fmt.Errorf("take the terminal: %w", err)
	}
	return nil
}

// becomeCommand executes the command in our place. Signals ignored by whoever
// started custody are not the command's to inherit: a caught one is reset by
// execve.
func becomeCommand(path string, args []string) error {
	signal.Notify(make(chan os.Signal, 1))
	runtime.LockOSThread()
	var empty unix.Sigset_t
	unix.PthreadSigmask(unix.SIG_SETMASK, &empty, nil)
	return syscall.Exec(path, args, os.Environ())
}
