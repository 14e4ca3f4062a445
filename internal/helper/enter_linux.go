package helper

import (
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

// The leader of a launch on a terminal must be the terminal's foreground group
// before its first instruction, or its first read stops it. So the keeper
// forks this role, which takes the terminal and then becomes the command.

type enterArgs struct {
	Path   string `json:"path"`
	Status int    `json:"status"` // descriptor of the status pipe
}

// viaEnter rewrites c to run through the role. failed is called after the
// start: it waits for the execve and returns its error.
func viaEnter(c *exec.Cmd, attr *syscall.SysProcAttr) (failed func() error, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := Binary{path: selfExe, self: true}
	e, err := b.command("enter", enterArgs{Path: c.Path, Status: 3 + len(c.ExtraFiles)})
	if err != nil {
		return nil, err
	}
	// The command's environment is the leader's own; the role's variables come
	// first and are taken out again.
	c.Env = append(append([]string{}, e.Env[0], e.Env[1]), c.Env...)
	path := c.Path
	c.Path = selfExe
	c.ExtraFiles = append(c.ExtraFiles, w)
	attr.Setpgid = true
	return func() error {
		w.Close()
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil || len(b) == 0 {
			return err
		}
		var no int
		if _, err := fmt.Sscanf(string(b), "%d", &no); err != nil {
			return fmt.Errorf("start %s: %s", path, b)
		}
		return &os.PathError{Op: "fork/exec", Path: path, Err: syscall.Errno(no)}
	}, nil
}

// enter is the role.
func enter(raw []byte) int {
	var a enterArgs
	if err := json.Unmarshal(raw, &a); err != nil {
		return 125
	}
	status := os.NewFile(uintptr(a.Status), "status")
	syscall.CloseOnExec(a.Status)
	runtime.LockOSThread()
	tty, err := host.OpenTerminal()
	if err == nil {
		err = tty.SetForeground(host.OurGroup())
		tty.Close()
	}
	if err != nil {
		fmt.Fprintf(status, "take the terminal: %v", err)
		return 126
	}
	// Signals ignored by whoever started custody are not the command's to
	// inherit: a caught one is reset by execve.
	signal.Notify(make(chan os.Signal, 1))
	var empty unix.Sigset_t
	unix.PthreadSigmask(unix.SIG_SETMASK, &empty, nil)
	err = syscall.Exec(a.Path, os.Args, os.Environ())
	no, _ := err.(syscall.Errno)
	fmt.Fprintf(status, "%d", int(no))
	return 126
}
