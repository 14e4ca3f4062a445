package host

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

// Process is an opened handle of one process: a pidfd. It keeps meaning that
// process after it ended and after its number was given to another one.
//
// Its methods may be called from several goroutines; none races Close.
type Process struct {
	pid int

	mu     sync.RWMutex
	fd     int // -1 once closed
	closed bool
}

// Open opens the process that has this number now. It returns an error that
// matches os.ErrProcessDone where there is none, ErrUnsupported before Linux
// 5.3.
func Open(pid int) (*Process, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("open process %d: no pid", pid)
	}
	if Without("pidfd") {
		return nil, fmt.Errorf("open process %d: pidfd_open: %w", pid, ErrUnsupported)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == unix.ESRCH || err == unix.EINVAL || err == unix.ENOENT:
		// EINVAL and ENOENT: the number belongs to a thread, not to a process.
		return nil, fmt.Errorf("open process %d: %w", pid, os.ErrProcessDone)
	case err == unix.ENOSYS:
		return nil, fmt.Errorf("open process %d: pidfd_open: %w", pid, ErrUnsupported)
	case err != nil:
		return nil, fmt.Errorf("open process %d: pidfd_open: %w", pid, err)
	}
	return FromFD(fd, pid), nil
}

// FromFD takes over a pidfd that a clone gave.
func FromFD(fd, pid int) *Process {
	unix.CloseOnExec(fd)
	return &Process{pid: pid, fd: fd}
}

// PID returns the number by which the process was opened. A bare number: good
// for reading, never for a signal.
func (p *Process) PID() int { return p.pid }

// Close closes the handle. Later uses return os.ErrClosed.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	return unix.Close(p.fd)
}

// Use calls f with the pidfd, which stays open until f returns.
func (p *Process) Use(f func(fd int) error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return os.ErrClosed
	}
	return f(p.fd)
}

// Dup returns a second handle of the same process.
func (p *Process) Dup() (*Process, error) {
	var q *Process
	err := p.Use(func(fd int) error {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err == nil {
			q = &Process{pid: p.pid, fd: n}
		}
		return err
	})
	return q, err
}

// Exited reports whether the last thread of the process ended. This is the
// honest test of "gone": state Z in /proc is not.
func (p *Process) Exited() (bool, error) {
	exited := false
	err := p.Use(func(fd int) error {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(fds, 0)
			if err == unix.EINTR {
				continue
			}
			exited = n == 1 && fds[0].Revents&(unix.POLLIN|unix.POLLHUP) != 0
			return err
		}
	})
	return exited, err
}

// pidfdInfo mirrors struct pidfd_info of <linux/pidfd.h>, version 0 (64 bytes).
type pidfdInfo struct {
	mask     uint64
	cgroupID uint64
	pid      uint32
	tgid     uint32
	ppid     uint32
	ruid     uint32
	rgid     uint32
	euid     uint32
	egid     uint32
	suid     uint32
	sgid     uint32
	fsuid    uint32
	fsgid    uint32
	exitCode int32
}

const (
	pidfdInfoPID    = 1 << 0
	pidfdInfoCreds  = 1 << 1
	pidfdInfoCgroup = 1 << 2
	// _IOWR(0xFF, 11, struct pidfd_info); the ioctl encoding of mips, ppc and
	// sparc differs, and there the call fails and the fallback is taken.
	pidfdGetInfo = 3<<30 | 64<<16 | 0xFF<<8 | 11
)

// info asks PIDFD_GET_INFO (Linux 6.13). A reaped process gives
// os.ErrProcessDone.
func (p *Process) info() (pidfdInfo, error) {
	in := pidfdInfo{mask: pidfdInfoPID | pidfdInfoCreds | pidfdInfoCgroup}
	if Without("info") {
		return in, ErrUnsupported
	}
	err := p.Use(func(fd int) error {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), pidfdGetInfo, uintptr(unsafe.Pointer(&in)))
		switch e {
		case 0:
			if in.mask&pidfdInfoPID == 0 || in.pid == 0 {
				return os.ErrProcessDone
			}
			return nil
		case unix.ESRCH, unix.EREMOTE:
			return os.ErrProcessDone
		case unix.ENOTTY, unix.EINVAL, unix.ENOSYS:
			return ErrUnsupported
		}
		return e
	})
	return in, err
}

// ExitStatus returns the wait status of a process that ended while we held its
// handle, even if it was somebody else's child and is reaped (PIDFD_INFO_EXIT,
// Linux 6.15); ErrUnsupported before. The process must have ended.
func (p *Process) ExitStatus() (uint32, error) {
	const infoExit = 1 << 3
	in := pidfdInfo{mask: infoExit}
	err := p.Use(func(fd int) error {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), pidfdGetInfo, uintptr(unsafe.Pointer(&in)))
		if e != 0 {
			return e
		}
		return nil
	})
	if err == nil && in.mask&infoExit != 0 && !Without("info") {
		return uint32(in.exitCode), nil
	}
	// The kernel keeps it for the handle from the reap on. Before, it stands
	// in the last field of /proc/PID/stat, for whoever may see it.
	b, err := p.read("stat")
	if err != nil {
		return 0, ErrUnsupported
	}
	return ParseExitCode(b)
}

// Numbered returns nil while the number the process was opened by still means
// this process (it is alive or an unreaped zombie), os.ErrProcessDone after
// its reap, and another error if that can't be told.
func (p *Process) Numbered() error {
	in, err := p.info()
	if err == nil {
		if int(in.pid) != p.pid {
			return fmt.Errorf("process %d: its handle says pid %d", p.pid, in.pid)
		}
		return nil
	}
	if !errors.Is(err, ErrUnsupported) {
		return err
	}
	// Before 6.13: the Pid: line of the handle's fdinfo is -1 after the reap.
	return p.Use(func(fd int) error {
		b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
		if err != nil {
			return err
		}
		v, ok := statusField(b, "Pid:")
		if !ok {
			return fmt.Errorf("process %d: no Pid: in fdinfo", p.pid)
		}
		switch v {
		case strconv.Itoa(p.pid):
			return nil
		case "-1", "0":
			return os.ErrProcessDone
		}
		return fmt.Errorf("process %d: its handle says pid %s", p.pid, v)
	})
}

// Identity reads everything by which the process can be recognised later.
func (p *Process) Identity() (proof.Identity, error) {
	row, err := p.Stat()
	if err != nil {
		return proof.Identity{}, err
	}
	id := proof.Identity{PID: p.pid, PGID: row.PGID, SID: row.SID, Start: row.Start}
	if id.UID, err = p.UID(); err != nil {
		return proof.Identity{}, err
	}
	if id.Inode, err = p.Inode(); err != nil && !errors.Is(err, ErrUnsupported) {
		return proof.Identity{}, err
	}
	if id.FileHandle, id.FileHandleType, err = p.FileHandle(); err != nil && !errors.Is(err, ErrUnsupported) {
		return proof.Identity{}, err
	}
	// The executable can be out of our sight (another user's, non-dumpable).
	if id.ExeDev, id.ExeIno, err = p.Exe(); errors.Is(err, os.ErrProcessDone) {
		return proof.Identity{}, err
	}
	return id, nil
}

const pidfsMagic = 0x50494446 // PID_FS_MAGIC, <linux/magic.h>

// Inode returns the pidfs inode (Linux 6.9), which differs for every process
// of a boot; ErrUnsupported before.
func (p *Process) Inode() (uint64, error) {
	if Without("inode") {
		return 0, ErrUnsupported
	}
	var ino uint64
	err := p.Use(func(fd int) error {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(fd, &fs); err != nil {
			return err
		}
		if int64(fs.Type) != pidfsMagic {
			return ErrUnsupported
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		ino = uint64(st.Ino)
		return nil
	})
	return ino, err
}

// FileHandle returns the durable handle (Linux 6.14, measured on 6.18): eight
// bytes that never recur within a boot.
func (p *Process) FileHandle() (string, int32, error) {
	if Without("handle") {
		return "", 0, ErrUnsupported
	}
	var h unix.FileHandle
	err := p.Use(func(fd int) error {
		var err error
		h, _, err = unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
		return err
	})
	switch err {
	case nil:
		return hex.EncodeToString(h.Bytes()), h.Type(), nil
	case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL:
		return "", 0, ErrUnsupported
	}
	return "", 0, fmt.Errorf("name_to_handle_at: %w", err)
}

// Reopen turns a recorded durable handle back into an opened process. For a
// reaped leader this works as long as its process group or session has
// members (measured on Linux 6.18); the Process then is Exited and good for a
// signal to that group. It returns os.ErrProcessDone when nothing is left
// under the number, and ErrUnsupported where the kernel or the record has no
// durable handle.
func Reopen(id proof.Identity) (*Process, error) {
	if id.FileHandle == "" || Without("handle") {
		return nil, ErrUnsupported
	}
	b, err := hex.DecodeString(id.FileHandle)
	if err != nil {
		return nil, fmt.Errorf("recorded file handle: %w", err)
	}
	h := unix.NewFileHandle(id.FileHandleType, b)
	fd, err := unix.OpenByHandleAt(unix.FD_PIDFS_ROOT, h, unix.O_CLOEXEC)
	if err == unix.EBADF {
		// Before 6.17 any pidfd serves as the mount.
		self, e := unix.PidfdOpen(os.Getpid(), 0)
		if e != nil {
			return nil, fmt.Errorf("open process by handle: %w", e)
		}
		fd, err = unix.OpenByHandleAt(self, h, unix.O_CLOEXEC)
		unix.Close(self)
	}
	switch err {
	case nil:
		return &Process{pid: id.PID, fd: fd}, nil
	case unix.ESTALE, unix.ESRCH, unix.ENOENT:
		return nil, fmt.Errorf("open process by handle: %w", os.ErrProcessDone)
	case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL:
		return nil, ErrUnsupported
	}
	return nil, fmt.Errorf("open process by handle: %w", err)
}

// Recognise opens a recorded process: by its durable handle, or on kernels
// without one by its number, comparing the pidfs inode, or start time and
// executable. It returns os.ErrProcessDone if that process is no more.
func Recognise(id proof.Identity) (*Process, error) {
	p, err := Reopen(id)
	if !errors.Is(err, ErrUnsupported) {
		return p, err
	}
	if p, err = Open(id.PID); err != nil {
		return nil, err
	}
	got, err := p.Identity()
	if err == nil && !same(got, id) {
		err = fmt.Errorf("process %d is another one now: %w", id.PID, os.ErrProcessDone)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Is reports whether the process is a recorded one, by the strongest fact that
// both have. false is no proof of the contrary: it may have ended meanwhile.
func (p *Process) Is(id proof.Identity) bool {
	if id.PID != p.pid {
		return false
	}
	got, err := p.Identity()
	return err == nil && same(got, id)
}

// Lives reports whether a recorded process lives. Unknown is one that can't be
// asked.
func Lives(id proof.Identity) proof.Answer {
	p, err := Recognise(id)
	if errors.Is(err, os.ErrProcessDone) {
		return proof.No
	}
	if err != nil {
		return proof.Unknown
	}
	defer p.Close()
	exited, err := p.Exited()
	if err != nil {
		return proof.Unknown
	}
	return proof.Of(!exited)
}

func same(got, want proof.Identity) bool {
	if got.FileHandle != "" && want.FileHandle != "" {
		return got.FileHandle == want.FileHandle && got.FileHandleType == want.FileHandleType
	}
	if got.Inode != 0 && want.Inode != 0 {
		return got.Inode == want.Inode
	}
	return got.Start == want.Start && got.ExeDev == want.ExeDev && got.ExeIno == want.ExeIno
}

// WaitExit blocks until the last thread of the process ended, or ctx is done.
// It costs a goroutine, not a thread. The error is the context's, or
// os.ErrClosed: where no descriptor can be had it asks again and again, which
// needs none.
func (p *Process) WaitExit(ctx context.Context) error {
	pause := time.Millisecond
	for {
		err := p.waitExit(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
			return err
		}
		done, err := p.Exited()
		if err == nil && done || errors.Is(err, os.ErrClosed) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		pause = min(2*pause, 250*time.Millisecond)
	}
}

// waitExit waits without asking again and again.
//
// The pidfd itself must stay as it is: its copies, one of them the standard
// library's, share its flags, and on a non-blocking pidfd waitid answers
// EAGAIN instead of waiting. So the runtime polls an epoll that holds it.
func (p *Process) waitExit(ctx context.Context) error {
	q, err := p.Dup() // stays open whatever becomes of p
	if err != nil {
		return err
	}
	defer q.Close()
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	err = q.Use(func(fd int) error {
		return unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	})
	if err == nil {
		err = unix.SetNonblock(ep, true)
	}
	if err != nil {
		unix.Close(ep)
		return err
	}
	f := os.NewFile(uintptr(ep), "epoll of a pidfd")
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var perr error
	err = conn.Read(func(ep uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(ep), Events: unix.POLLIN}}
		n, e := unix.Poll(fds, 0)
		if e != nil && e != unix.EINTR {
			perr = e
			return true
		}
		return n == 1
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return perr
}

// PollExit waits until one of ps ended or the timeout passed.
func PollExit(ps []*Process, timeout time.Duration) {
	fds := make([]unix.PollFd, 0, len(ps))
	for _, p := range ps {
		p.mu.RLock()
		defer p.mu.RUnlock()
		if !p.closed {
			fds = append(fds, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN})
		}
	}
	// A negative time would be for ever.
	ms := int(max(0, timeout+time.Millisecond-1) / time.Millisecond)
	unix.Poll(fds, ms) // an error is an early return, the caller looks again
}
