package logfile

import (
	"os"
	"syscall"
)

// inode is a file's number; it is not given to another file while somebody
// has this one open.
func inode(fi os.FileInfo) uint64 {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return st.Ino
}
