package helper

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Level pidns: the leader is a small init of ours in a PID namespace of the
// launch's own. Whatever happens in there ends with it, by the kernel's hand.
// The command is its child and runs in its group and session, so that a
// signal to the group reaches it once.

// nsReport is one line of the status pipe.
type nsReport struct {
	Failed string  `json:"failed,omitempty"` // the command could not be started
	Status *uint32 `json:"status,omitempty"` // the command's wait status
}

// viaNamespace runs c under nsinit in new namespaces.
func (k *kept) viaNamespace(c *exec.Cmd, join string) (failed func() error, err error) {
	attr := c.SysProcAttr
	attr.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWNS
	if os.Geteuid() != 0 && len(attr.UidMappings) == 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		// What the init needs to mount /proc; it drops to nothing by execve.
		attr.AmbientCaps = append(attr.AmbientCaps, unix.CAP_SYS_ADMIN)
	}
	path, args := c.Path, c.Args
	r, w, err := via("nsinit", c, func(status int) any {
		return enterArgs{Status: status, Front: k.spec.Front, Join: []byte(join)}
	})
	if err != nil {
		return nil, err
	}
	return func() (err error) {
		w.Close()
		defer func() {
			if err != nil {
				r.Close() // the init waits for our word, and ends without it
			}
		}()
		tell(r, path, args)
		lines := bufio.NewReader(r)
		report := func() error {
			var rep nsReport
			if err := readReport(lines, &rep); err != nil {
				return fmt.Errorf("start %s: the init of its PID namespace ended: %w", path, err)
			}
			if rep.Failed != "" {
				return execError(path, rep.Failed)
			}
			return nil
		}
		// The init is up and waits: it is written down before the command is
		// started.
		if err := report(); err != nil {
			return err
		}
		if err := k.record(); err != nil {
			return err
		}
		if _, err := r.Write([]byte{'\n'}); err != nil {
			return err
		}
		if err := report(); err != nil {
			return err
		}
		k.started = func() {
			defer close(k.heard)
			defer r.Close()
			var last nsReport
			if readReport(lines, &last) == nil && last.Status != nil {
				k.leaderEnded(*last.Status)
			}
		}
		return nil
	}, nil
}

func readReport(r *bufio.Reader, into *nsReport) error {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, into)
}

// nsInit is the role: mount /proc, start the command, collect every orphan,
// tell the command's status, and end when nothing is left.
func nsInit(raw []byte) int {
	var a enterArgs
	if err := json.Unmarshal(raw, &a); err != nil {
		return 125
	}
	status := os.NewFile(uintptr(a.Status), "status")
	syscall.CloseOnExec(a.Status)
	report := json.NewEncoder(status)
	// Signals are sent to every member, so the command gets its own; those
	// meant for the leader alone are passed on.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	chld := make(chan os.Signal, 1)
	signal.Notify(chld, syscall.SIGCHLD)

	if err := a.hear(status); err != nil {
		return 125 // the keeper died
	}
	err := a.settle()
	if err == nil {
		report.Encode(nsReport{})
		if _, err := status.Read(make([]byte, 1)); err != nil {
			return 125 // the keeper died
		}
	}
	var cmd *os.Process
	if err == nil {
		cmd, err = a.command()
	}
	if err != nil {
		report.Encode(nsReport{Failed: failed(err)})
		return 126
	}
	report.Encode(nsReport{})
	go func() {
		for s := range signals {
			switch s {
			case syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH:
				cmd.Signal(s)
			}
		}
	}()
	for {
		for {
			info, err := waitid(unix.WEXITED | unix.WNOHANG | unix.WNOWAIT)
			if err == unix.ECHILD {
				return 0 // the status was told
			}
			if err != nil || info.pid == 0 {
				break
			}
			var ws unix.WaitStatus
			if _, err := unix.Wait4(int(info.pid), &ws, 0, nil); err == nil && int(info.pid) == cmd.Pid {
				st := uint32(ws)
				report.Encode(nsReport{Status: &st})
			}
		}
		<-chld
	}
}

// settle makes the namespace a place to run in.
func (a enterArgs) settle() error {
	if os.Getpid() != 1 {
		return errors.New("not PID 1 of a namespace")
	}
	// Mounts made here must not show outside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	return a.arrive()
}

// command starts the command inside.
func (a enterArgs) command() (*os.Process, error) {
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	for fd := 3; fd < a.Status; fd++ {
		files = append(files, os.NewFile(uintptr(fd), "extra"))
	}
	var p *os.Process
	var err error
	CleanMask(func() {
		p, err = os.StartProcess(a.path, a.args, &os.ProcAttr{Files: files, Env: os.Environ()})
	})
	if err != nil {
		return nil, err
	}
	// The files are the command's; ours would keep its pipes open.
	for _, f := range files[3:] {
		f.Close()
	}
	closeAll(strangers(a.Status + 1))
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			unix.Dup3(int(null.Fd()), fd, 0)
		}
		null.Close()
	}
	return p, nil
}

// failed is the report of an error: its number where it has one.
func failed(err error) string {
	var no syscall.Errno
	if errors.As(err, &no) && strings.HasPrefix(err.Error(), "fork/exec ") {
		return fmt.Sprint(int(no))
	}
	return err.Error()
}
