package port

import (
	"strconv"

	"github.com/custody-project/custody/internal/host"
	"golang.org/x/sys/unix"
)

// netns returns the inode of a process's network namespace, of ours for nil; 0
// if it can't be seen. Ours is this thread's: the main thread may have changed
// its own.
func netns(p *host.Process) uint64 {
	path := "/proc/thread-self/ns/net"
	if p != nil {
		path = "/proc/" + strconv.Itoa(p.PID()) + "/ns/net"
	}
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || p != nil && p.Numbered() != nil {
		return 0
	}
	return uint64(st.Ino)
}
