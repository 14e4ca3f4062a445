package helper

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CleanMask calls f on a thread whose signal mask is empty, so that a process
// forked in f starts with nothing blocked even if we inherited blocked
// signals.
func CleanMask(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var empty, old unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &empty, &old); err == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	}
	f()
}

// resetSignal sets a signal's disposition to the default by a raw system call.
// The Go runtime keeps handlers of its own for the synchronous ones, which
// would turn them into a panic.
func resetSignal(sig syscall.Signal) {
	// struct kernel_sigaction: handler, flags, restorer, mask. All zero is
	// SIG_DFL on every architecture Go supports.
	var sa [32]byte
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&sa)), 0, 8, 0, 0)
}
