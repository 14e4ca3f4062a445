package reap

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ignored asks for the disposition of SIGCHLD without changing it. The runtime
// has a notion of its own, but no word for SA_NOCLDWAIT, which C code can set.
func ignored() error {
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		return nil // the structure is another one there
	}
	const (
		sigIgn    = 1
		noCldWait = 2
	)
	var act struct{ handler, flags, restorer, mask, more uintptr } // the kernel's struct sigaction
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), 0, uintptr(unsafe.Pointer(&act)), 8, 0, 0)
	switch {
	case e != 0:
		return unsupported(os.NewSyscallError("rt_sigaction", e))
	case act.handler == sigIgn:
		return fmt.Errorf("%w; undo signal.Ignore", ErrIgnored)
	case act.flags&noCldWait != 0:
		return fmt.Errorf("%w: it is marked SA_NOCLDWAIT", ErrIgnored)
	}
	return nil
}
