package reap

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const wordPad = int(unsafe.Sizeof(uintptr(0))/4) - 1

type siginfoChild struct {
	signo, errno, Code int32
	_                  [wordPad]int32
	PID                int32
	UID                uint32
	Status             int32
	_                  [104]byte
}

func waitidOf(kind, id, flags int) (info siginfoChild, err error) {
	for {
		_, _, e := syscall.Syscall6(unix.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(&info)), uintptr(flags), 0, 0)
		switch e {
		case 0:
			return info, nil
		case syscall.EINTR:
			continue
		}
		return info, e
	}
}
