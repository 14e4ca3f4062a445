package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// PipeState looks at the read end of a pipe: how many bytes wait in it, and
// whether anybody still holds the other end.
func PipeState(f *os.File) (waiting int, held bool, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	cerr := conn.Control(func(fd uintptr) {
		if waiting, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil {
			return
		}
		fds := []unix.PollFd{{Fd: int32(fd)}}
		for {
			if _, err = unix.Poll(fds, 0); err != unix.EINTR {
				break
			}
		}
		held = fds[0].Revents&unix.POLLHUP == 0
	})
	if err == nil {
		err = cerr
	}
	return waiting, held, err
}
