//go:build unix

// The signals of Unix, and how a process dies of one for its parent to see.

package tree

import (
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endingSignals leaves out those that report a fault of the program itself.
var endingSignals = append([]os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTRAP, unix.SIGABRT,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGTERM,
	unix.SIGXCPU, unix.SIGXFSZ, unix.SIGVTALRM, unix.SIGPROF, unix.SIGSYS,
}, moreEndingSignals...)

func signalNamed(name string) os.Signal {
	if s := unix.SignalNum("SIG" + name); s != 0 {
		return s
	}
	return nil
}

func nameOfSignal(s os.Signal) string {
	if n, ok := s.(syscall.Signal); ok && unix.SignalName(n) != "" {
		return strings.TrimPrefix(unix.SignalName(n), "SIG")
	}
	return s.String()
}

// dieOf ends this process by a signal, without a core dump.
func (p *proc) dieOf(s os.Signal) {
	sig := s.(syscall.Signal)
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	restoreDefault(sig)
	unix.Kill(os.Getpid(), sig)
	time.Sleep(time.Second)
	p.fail("signal %v does not end a process", sig)
}
