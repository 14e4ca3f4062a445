// Who a process is, by what the kernel never gives to another: the start time
// in raw ticks and the inode of the pidfd.

package tree

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// pidfsMagic is the file system type of a pidfd since Linux 6.9; before that
// all of them share one inode.
const pidfsMagic = 0x50494446

func identify() Proc { return identityOf(os.Getpid()) }

// identityOf looks at a process that cannot end meanwhile: the caller itself,
// or a child that it has not collected.
func identityOf(pid int) Proc {
	p := Proc{PID: pid}
	p.PGID, _ = unix.Getpgid(pid)
	p.SID, _ = unix.Getsid(pid)
	p.Start, _ = startTicks(pid)
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return p
	}
	defer unix.Close(fd)
	p.Inode = pidfdInode(fd)
	return p
}

func pidfdInode(fd int) uint64 {
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != pidfsMagic {
		return 0
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Ino
}

// statFields returns the fields of /proc/PID/stat from the third (the state)
// on. The second, the name, may hold anything.
func statFields(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	rest := b[bytes.LastIndexByte(b, ')')+1:]
	var fields []string
	for _, f := range bytes.Fields(rest) {
		fields = append(fields, string(f))
	}
	if len(fields) < 20 {
		return nil, fmt.Errorf("tree: /proc/%d/stat is short: %q", pid, b)
	}
	return fields, nil
}

func startTicks(pid int) (uint64, error) {
	f, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(f[19], 10, 64)
}
