// The deadline that no state of a process evades: a kernel timer whose signal
// is KILL. It fires for a stopped process as well, which no timer of its own
// could end. It does not survive an exec.

package tree

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigevent is the kernel's struct of that name, up to what a plain signal uses.
type sigevent struct {
	value  uintptr
	signo  int32
	notify int32 // 0 is SIGEV_SIGNAL
	_      [64]byte
}

const timerKillsStopped = true

func killAt(d time.Duration) {
	ev := sigevent{signo: int32(unix.SIGKILL)}
	var id int32
	_, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC,
		uintptr(unsafe.Pointer(&ev)), uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return // the timer inside the process remains
	}
	when := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(id), 0,
		uintptr(unsafe.Pointer(&when)), 0, 0, 0)
}
