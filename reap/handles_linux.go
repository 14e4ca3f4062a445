package reap

// Who holds a handle of a zombie. os/exec has a pidfd of each child: the kernel
// puts it into our table before the child runs (CLONE_PIDFD), and os.Process
// closes it when Wait has collected the child, or when nobody can call Wait any
// more. So a dead child without one in our table is no command that is waited
// for.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/custody-project/custody/internal/host"
	"golang.org/x/sys/unix"
)

// file is what makes two descriptors the same file.
type file struct {
	device [2]uint32
	inode  uint64
}

// pidFS is PID_FS_MAGIC of <linux/magic.h>.
const pidFS = 0x50494446

// fileOf never asks a server: a descriptor of a file system that is away would
// hold us up.
func fileOf(fd int) (file, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st)
	return file{[2]uint32{st.Dev_major, st.Dev_minor}, st.Ino}, os.NewSyscallError("statx", err)
}

// findHolders counts the handles of each zombie of the batch.
func (r *Reaper) findHolders() error {
	if !r.handles || len(r.batch) == 0 {
		return nil
	}
	return r.countHolders(r.batch)
}

func (r *Reaper) countHolders(zs []zombie) error {
	byFile := make(map[file]*zombie, len(zs))
	byPID := make(map[int]*zombie, len(zs))
	mine := make(map[int]bool, len(zs))
	var handles [2]uint32 // the device of them all
	for i := range zs {
		z := &zs[i]
		f, err := fileOf(z.fd)
		if err != nil {
			return err
		}
		handles, mine[z.fd] = f.device, true
		byPID[z.pid] = z
		if r.inodes {
			byFile[f], z.id = z, f.inode
		}
	}
	return r.eachDescriptor(func(fd int) error {
		if mine[fd] {
			return nil
		}
		f, err := fileOf(fd)
		switch {
		case errors.Is(err, unix.EBADF):
			return nil // closed since
		case err != nil:
		case f.device != handles:
			return nil
		case r.inodes:
			if z := byFile[f]; z != nil {
				z.holders++
			}
			return nil
		}
		// Before Linux 6.9 all handles are one file, and many others are it too.
		if z := byPID[handleOf(fd)]; z != nil {
			z.holders++
		}
		return nil
	})
}

// handleOf returns the process that a descriptor is a handle of, 0 if it is
// none or that process was collected.
func handleOf(fd int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("Pid:")); ok {
			pid, _ := strconv.Atoi(string(bytes.TrimSpace(v)))
			return max(pid, 0)
		}
	}
	return 0
}

// eachDescriptor calls f for the number of each of our descriptors.
func (r *Reaper) eachDescriptor(f func(fd int) error) error {
	dir := int(r.fds.Fd())
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return os.NewSyscallError("lseek", err)
	}
	for {
		n, err := unix.Getdents(dir, r.buf)
		if err != nil || n <= 0 {
			return os.NewSyscallError("getdents64", err)
		}
		// struct linux_dirent64: inode, offset, length, type, name.
		for b := r.buf[:n]; len(b) > 19; {
			size := int(binary.NativeEndian.Uint16(b[16:]))
			name, _, _ := bytes.Cut(b[19:size], []byte{0})
			if fd, err := strconv.Atoi(string(name)); err == nil {
				if err := f(fd); err != nil {
					return err
				}
			}
			b = b[size:]
		}
	}
}

// probe finds out if os/exec has handles, by letting package os open one as it
// does for a child and seeing it come and go.
func (r *Reaper) probe(pid int) (bool, error) {
	if host.Without("pidfd") {
		return false, errors.New("pidfd_open: taken away")
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false, os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	if _, err := deadChild(unix.P_PIDFD, fd); err != nil {
		return false, err
	}
	var st unix.Statfs_t
	r.inodes = unix.Fstatfs(fd, &st) == nil && st.Type == pidFS && !host.Without("inode")
	count := func() (int, error) {
		z := []zombie{{pid: pid, fd: fd}}
		err := r.countHolders(z)
		return z[0].holders, err
	}
	for range 10 { // somebody else can open or close one of us meanwhile
		p, err := os.FindProcess(pid)
		if err != nil {
			return false, err
		}
		with, err := count()
		p.Release()
		without, err2 := count()
		if err := errors.Join(err, err2); err != nil {
			return false, err
		}
		if with > without {
			return true, nil
		}
	}
	return false, errors.New("package os opens none")
}
