package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// CgroupBase returns the directory below which this process may make cgroups
// of its own: its own cgroup v2 directory, where that is writable. Where
// systemd manages the tree it must have been delegated to us (the single
// writer rule of systemd's CGROUP_DELEGATION). Otherwise the error says what
// is missing; it matches ErrUnsupported.
func CgroupBase() (string, error) { return CgroupBaseOf(os.Getpid()) }

// CgroupBaseOf is CgroupBase for another process, of which the caller knows
// that the number is its own.
func CgroupBaseOf(pid int) (string, error) {
	no := func(format string, a ...any) (string, error) {
		return "", fmt.Errorf(format+": %w", append(a, ErrUnsupported)...)
	}
	if Without("cgroup") {
		return no("cgroup v2 is switched off")
	}
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return no("mountinfo: %v", err)
	}
	own, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return no("cgroup of process %d: %v", pid, err)
	}
	path, err := ParseCgroup(own)
	if err != nil {
		return no("no cgroup v2 hierarchy: %v", err)
	}
	for _, m := range ParseMountinfo(info) {
		if m.FSType != "cgroup2" {
			continue
		}
		dir, ok := m.At(path)
		if !ok {
			continue // we are not in that part, or our cgroup lies outside of our cgroup namespace
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil && dir != m.Point {
			return no("%s has no cgroup.kill (Linux 5.14)", dir)
		}
		if err := unix.Access(dir, unix.W_OK); err != nil {
			return no("cgroup directory %s is not writable (%v); delegate one, with 'systemd-run --user --scope -p Delegate=yes' for example", dir, err)
		}
		if err := unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK); err != nil {
			return no("cgroup.procs of %s is not writable (%v)", dir, err)
		}
		if _, err := os.Stat("/run/systemd/system"); err == nil && !delegated(dir) {
			return no("cgroup directory %s is managed by systemd and not delegated; start with Delegate=yes", dir)
		}
		return dir, nil
	}
	return no("no cgroup v2 mount shows our cgroup")
}

func delegated(dir string) bool {
	for _, attr := range []string{"user.delegate", "trusted.delegate"} {
		b := make([]byte, 8)
		n, err := unix.Getxattr(dir, attr, b)
		if err == nil && bytes.Equal(b[:n], []byte("1")) {
			return true
		}
	}
	return false
}

// CgroupDirID returns the kernel's 64-bit id of a cgroup directory, which is
// never reused within a boot. Missing matches fs.ErrNotExist.
func CgroupDirID(dir string) (uint64, error) {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
			return 0, fmt.Errorf("cgroup %s: %w", dir, fs.ErrNotExist)
		}
		return 0, fmt.Errorf("cgroup %s: name_to_handle_at: %w", dir, err)
	}
	if h.Size() != 8 {
		return 0, fmt.Errorf("cgroup %s: handle of %d bytes, want 8", dir, h.Size())
	}
	return binary.NativeEndian.Uint64(h.Bytes()), nil
}

// CgroupsSeen returns nil if a cgroup directory that is missing was removed: if
// what is left of its path lies on a cgroup v2 file system. Otherwise that file
// system is only not mounted here, and the cgroup may be full.
func CgroupsSeen(dir string) error {
	for {
		dir = filepath.Dir(dir)
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == unix.ENOENT && dir != "/" {
			continue
		}
		if err != nil {
			return fmt.Errorf("cgroup: statfs %s: %w", dir, err)
		}
		if st.Type != unix.CGROUP2_SUPER_MAGIC {
			return fmt.Errorf("cgroup: no cgroup v2 file system is mounted at %s", dir)
		}
		return nil
	}
}
