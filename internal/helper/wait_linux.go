package helper

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	cldStopped   = 5 // CLD_STOPPED
	cldContinued = 6 // CLD_CONTINUED

	// On 64-bit systems four bytes of padding stand before the union.
	wordPad = int(unsafe.Sizeof(uintptr(0))/4) - 1
)

// waitid looks for a child that changed state, without collecting it if flags
// say WNOWAIT. pid 0 in the answer means none has.
func waitid(flags int) (siginfoChild, error) { return waitFor(unix.P_ALL, 0, flags) }

func waitFor(kind, pid, flags int) (siginfoChild, error) {
	var info siginfoChild
	for {
		_, _, e := unix.Syscall6(unix.SYS_WAITID, uintptr(kind), uintptr(pid), uintptr(unsafe.Pointer(&info)), uintptr(flags), 0, 0)
		switch e {
		case 0:
			return info, nil
		case unix.EINTR:
			continue
		}
		return info, e
	}
}

// takeStop takes note of a child's stop or continuation, so that waitid tells
// of it no more. It never takes its exit, which can have come meanwhile: wait4
// would.
func takeStop(pid int) {
	waitFor(unix.P_PID, pid, unix.WSTOPPED|unix.WCONTINUED|unix.WNOHANG)
}

// siginfoChild is the part of siginfo_t that waitid fills in, on the
// architectures Go runs Linux on.
type siginfoChild struct {
	signo, errno, code int32
	_                  [wordPad]int32
	pid                int32
	uid                uint32
	status             int32
	_                  [104]byte
}
