package helper

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A shell hands every descriptor it has open to what it starts, and so a lock
// or a pipe of whoever called us comes down to the helpers. The command may
// have it, as with nohup. A helper may not: the command can close what it does
// not want, and nobody could close what a helper holds for hours.

// strangers are the descriptors from `from` on that came from above: those of
// our own are closed by execve.
func strangers(from int) []int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < from {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			out = append(out, fd)
		}
	}
	return out
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
