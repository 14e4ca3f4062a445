// The default action of a signal, put back behind the Go runtime, which would
// turn some of them into a stack trace and an ordinary exit.

package tree

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runtimeSignals are those the Go runtime uses on its own account.
const runtimeSignals = "URG"

var moreEndingSignals = []os.Signal{unix.SIGSTKFLT, unix.SIGIO, unix.SIGPWR}

func restoreDefault(sig syscall.Signal) {
	var act [16]uintptr // all zero: default action, no flags, empty mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0)
}
