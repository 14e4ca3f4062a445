package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Here returns where we are.
func Here() (Place, error) {
	var p Place
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return p, fmt.Errorf("boot id: %w", err)
	}
	p.Boot = strings.TrimSpace(string(b))
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return p, fmt.Errorf("/proc is not of our PID namespace (/proc/self is %q, our pid %d): mount one with 'mount -t proc proc /proc'", self, os.Getpid())
	}
	if p.PIDNS, err = nsID("/proc/self/ns/pid"); err != nil {
		return p, fmt.Errorf("PID namespace: %w", err)
	}
	// machine-id(5); containers often have none.
	b, err = os.ReadFile("/etc/machine-id")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("machine id: %w", err)
	}
	p.Host = strings.TrimSpace(string(b))
	return p, nil
}

// nsID returns the 64-bit namespace id (NS_GET_ID, Linux 6.18), else the inode
// of the namespace file, which can recur after the namespace ended.
func nsID(path string) (uint64, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	const nsGetID = 2<<30 | 8<<16 | 0xb7<<8 | 13 // _IOR(0xb7, 13, __u64)
	var id uint64
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), nsGetID, uintptr(unsafe.Pointer(&id))); e == 0 && id != 0 {
		return id, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return uint64(st.Ino), nil
}

// Ancestors returns our own pid and those of our ancestors, as far as they are
// in our namespace.
func Ancestors() (map[int]bool, error) {
	up := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !up[pid]; {
		up[pid] = true
		b, err := readProc("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			if len(up) > 1 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)) {
				break // an ancestor ended meanwhile, what is above it is not ours any more
			}
			return nil, err
		}
		row, err := parseStat(b)
		if err != nil {
			return nil, err
		}
		pid = row.PPID
	}
	return up, nil
}
