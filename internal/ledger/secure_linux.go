package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

// openFlags keep an open from following a link in the last element, and from
// blocking on a FIFO somebody put there.
const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

var errReadOnly error = unix.EROFS

// checkDir refuses a directory that is not ours alone, as ssh does for keys.
func checkDir(root *os.Root, rel string) error {
	fi, err := root.Lstat(rel)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return errors.New("is no directory")
	}
	return checkOwn(fi, "directory", 0o700)
}

func checkFile(f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("is no regular file (%v)", fi.Mode().Type())
	}
	return checkOwn(fi, "file", 0o600)
}

func checkOwn(fi os.FileInfo, what string, want os.FileMode) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("can't tell whose it is")
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s of uid %d, and we are uid %d", what, st.Uid, os.Geteuid())
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s open to others (mode %04o); if it is custody's alone, make it private with chmod %04o", what, fi.Mode().Perm(), want)
	}
	if st.Nlink == 0 {
		return fmt.Errorf("%s was removed or replaced after it was opened: %w", what, fs.ErrNotExist)
	}
	if fi.Mode().IsRegular() && st.Nlink != 1 {
		return fmt.Errorf("file has %d names (hard links), want one", st.Nlink)
	}
	return nil
}

// networkFS names the network file system that path lies on; empty for none.
func networkFS(path string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return "", fmt.Errorf("statfs: %w", err)
	}
	switch uint32(fs.Type) {
	case unix.NFS_SUPER_MAGIC:
		return "NFS", nil
	case 0xff534d42: // CIFS_SUPER_MAGIC
		return "CIFS", nil
	case 0xfe534d42: // SMB2_SUPER_MAGIC
		return "SMB", nil
	case unix.V9FS_MAGIC:
		return "9p", nil
	case unix.AFS_SUPER_MAGIC, 0x6B414653: // AFS_FS_MAGIC
		return "AFS", nil
	case 0x00c36400: // CEPH_SUPER_MAGIC
		return "Ceph", nil
	case unix.FUSE_SUPER_MAGIC:
		return "FUSE", nil
	}
	return "", nil
}

func tryFlock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK:
			return false, nil
		case unix.EINTR:
			continue
		}
		return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
}

// flock waits for a lock that is only ever held for a moment.
func flock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

// A launch has two locks besides its owner's, as ranges of the owner's lock
// file (open file description locks, Linux 3.15): they cost no file, so they
// can be taken on a full disk.
const (
	rangeStop   = 0 // held while the launch is being stopped
	rangeUpdate = 1 // held while its record is rewritten
)

func rangeOf(id proof.ID, which int64) int64 {
	return int64(binary.BigEndian.Uint64(id[8:])>>2)<<1 | which
}

// lockRange waits for a lock that is only ever held for a moment. Where the
// file system is read-only there is nothing to exclude.
func (o *Owner) lockRange(id proof.ID, which int64) (func(), error) {
	return o.hold(context.Background(), id, which)
}

// HoldStop waits until no other process is stopping the launch, and keeps
// others from it until release is called.
func (o *Owner) HoldStop(ctx context.Context, id proof.ID) (release func(), err error) {
	return o.hold(ctx, id, rangeStop)
}

// TryHoldStop is HoldStop that reports false instead of waiting.
func (o *Owner) TryHoldStop(id proof.ID) (release func(), ok bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	release, err = o.hold(ctx, id, rangeStop)
	if errors.Is(err, context.Canceled) {
		return nil, false, nil
	}
	return release, err == nil, err
}

// holdAll keeps everybody from stopping launches of the owner and from writing
// records. The caller holds none of these locks.
func (o *Owner) holdAll(ctx context.Context) (release func(), err error) {
	return o.holdRange(ctx, 0, 0, "owner "+o.ID.String()+": a launch is being stopped or written")
}

func (o *Owner) hold(ctx context.Context, id proof.ID, which int64) (func(), error) {
	return o.holdRange(ctx, rangeOf(id, which), 1, "launch "+id.String()+": another process is stopping it")
}

// holdRange takes so many bytes of the lock file, all of them for 0.
func (o *Owner) holdRange(ctx context.Context, start, n int64, busy string) (func(), error) {
	// A descriptor of its own each time: such locks exclude open files, not
	// processes, so this serialises goroutines as well.
	f, err := o.root.OpenFile(lockFile, os.O_RDWR|openFlags, 0)
	if errors.Is(err, errReadOnly) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("owner %s: lock: %w", o.ID, err)
	}
	lk := unix.Flock_t{Type: unix.F_WRLCK, Start: start, Len: n}
	pause := 200 * time.Microsecond
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk)
		switch err {
		case nil:
			return func() { f.Close() }, nil
		case unix.EAGAIN, unix.EACCES, unix.EINTR:
		default:
			f.Close()
			return nil, fmt.Errorf("owner %s: lock: %w", o.ID, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("%s: %w", busy, ctx.Err())
		case <-time.After(pause):
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// Holder names the process that holds the owner's lock, for people: the kernel
// tells its number in /proc/locks.
func (o *Owner) Holder() string {
	var st unix.Stat_t
	b, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Lstat(filepath.Join(o.path, lockFile), &st) != nil {
		return "another process"
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)
	for line := range strings.Lines(string(b)) {
		// 1: FLOCK  ADVISORY  WRITE 713 fe:00:4711 0 EOF
		f := strings.Fields(line)
		if len(f) > 5 && f[1] == "FLOCK" && f[5] == file {
			return "process " + f[4]
		}
	}
	return "another process"
}
