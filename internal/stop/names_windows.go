package stop

import "syscall"

var signals = map[string]syscall.Signal{
	"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL,
}

// Windows has no such signals; nothing is ever sent there.
const (
	sigStop = syscall.Signal(-1)
	sigCont = syscall.Signal(-1)
)
