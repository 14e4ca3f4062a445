package host

import (
	"errors"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Terminal is our controlling terminal.
type Terminal struct{ f *os.File }

// OpenTerminal opens the controlling terminal; an error if there is none.
func OpenTerminal() (*Terminal, error) {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return &Terminal{f}, nil
}

// Close closes it.
func (t *Terminal) Close() error { return t.f.Close() }

// Foreground returns the foreground process group.
func (t *Terminal) Foreground() (int, error) {
	return unix.IoctlGetInt(int(t.f.Fd()), unix.TIOCGPGRP)
}

// SetForeground makes pgrp the foreground group. From a background group this
// would stop us by TTOU (tcsetpgrp(3)), so the signal is blocked meanwhile, on
// this thread alone.
func (t *Terminal) SetForeground(pgrp int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	n := int(unix.SIGTTOU) - 1
	bits := len(block.Val)
	word := 1024 / bits
	block.Val[n/word] |= 1 << (n % word)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old); err != nil {
		return err
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return unix.IoctlSetPointerInt(int(t.f.Fd()), unix.TIOCSPGRP, pgrp)
}

// OurGroup returns our own process group.
func OurGroup() int { return unix.Getpgrp() }

// Parent opens our parent. ErrUnsupported if it can't be told, because it is
// in another PID namespace.
func Parent() (*Process, error) {
	pid := os.Getppid()
	if pid == 0 {
		return nil, ErrUnsupported
	}
	p, err := Open(pid)
	if errors.Is(err, os.ErrProcessDone) || err == nil && os.Getppid() != pid {
		if err == nil {
			p.Close()
		}
		return nil, os.ErrProcessDone
	}
	return p, err
}

// StopSelf suspends this process as Ctrl-Z would, and returns once it is
// continued.
func StopSelf() { unix.Kill(unix.Getpid(), unix.SIGSTOP) }

// IsPipe reports whether f is a pipe or a socket.
func IsPipe(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}
