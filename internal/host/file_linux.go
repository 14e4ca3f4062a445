package host

import (
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// FileID returns device and inode of a path; a link in the last element is not
// followed.
func FileID(path string) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, 0, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return uint64(st.Dev), uint64(st.Ino), nil
}

// FileIDOf returns device and inode from what a Stat or Lstat gave.
func FileIDOf(fi os.FileInfo) (dev, ino uint64) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return uint64(st.Dev), uint64(st.Ino)
}

// MountsBelow lists the mount points at or below a directory.
func MountsBelow(dir string) ([]string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var at []string
	for _, m := range ParseMountinfo(b) {
		if m.Point == dir || strings.HasPrefix(m.Point, dir+"/") {
			at = append(at, m.Point)
		}
	}
	return at, nil
}
