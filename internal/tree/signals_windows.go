// Windows knows the names but delivers hardly any of them; a process that is
// to die of a signal exits the way a terminated process does.

package tree

import (
	"os"
	"strings"
	"syscall"
)

const runtimeSignals = ""

var endingSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

var windowsSignals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
	"ABRT": syscall.SIGABRT, "KILL": syscall.SIGKILL, "SEGV": syscall.SIGSEGV,
	"PIPE": syscall.SIGPIPE, "TERM": syscall.SIGTERM,
}

func signalNamed(name string) os.Signal {
	if s, ok := windowsSignals[name]; ok {
		return s
	}
	return nil
}

func nameOfSignal(s os.Signal) string {
	for name, sig := range windowsSignals {
		if sig == s {
			return name
		}
	}
	return strings.ReplaceAll(s.String(), " ", "-")
}

func (p *proc) dieOf(os.Signal) { quit(1) }
