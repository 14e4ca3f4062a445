package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// What /proc tells about an opened process. Every read is followed by a look
// at the handle: only if the number still means this process was it this
// process that was read.

func (p *Process) path(name string) string {
	return "/proc/" + strconv.Itoa(p.pid) + "/" + name
}

// verify turns the result of a read by number into an answer about this
// process.
func (p *Process) verify(readErr error) error {
	if err := p.Numbered(); err != nil {
		return err
	}
	if errors.Is(readErr, fs.ErrNotExist) || errors.Is(readErr, syscall.ESRCH) {
		// The number is still taken, so /proc hides it (hidepid) or is not ours.
		return fmt.Errorf("process %d is hidden in /proc: %w", p.pid, readErr)
	}
	return readErr
}

func (p *Process) read(name string) ([]byte, error) {
	b, err := readProc(p.path(name))
	if err = p.verify(err); err != nil {
		return nil, err
	}
	return b, nil
}

// Stat reads the process's line of the process table.
func (p *Process) Stat() (Row, error) {
	b, err := p.read("stat")
	if err != nil {
		return Row{}, err
	}
	return parseStat(b)
}

// UID returns the real uid.
func (p *Process) UID() (int, error) {
	in, err := p.info()
	if err == nil {
		if in.mask&pidfdInfoCreds != 0 {
			return int(in.ruid), nil
		}
		err = ErrUnsupported
	}
	if !errors.Is(err, ErrUnsupported) {
		return 0, err
	}
	b, err := p.read("status")
	if err != nil {
		return 0, err
	}
	v, ok := statusField(b, "Uid:")
	if !ok {
		return 0, fmt.Errorf("process %d: no Uid: in status", p.pid)
	}
	return strconv.Atoi(v)
}

// CgroupID returns the 64-bit id of the cgroup v2 the process is in
// (Linux 6.13); ErrUnsupported before.
func (p *Process) CgroupID() (uint64, error) {
	in, err := p.info()
	if err != nil {
		return 0, err
	}
	if in.mask&pidfdInfoCgroup == 0 || in.cgroupID == 0 {
		return 0, ErrUnsupported
	}
	return in.cgroupID, nil
}

// CgroupPath returns the path of the process in the cgroup v2 hierarchy, as
// seen from our cgroup namespace.
func (p *Process) CgroupPath() (string, error) {
	b, err := p.read("cgroup")
	if err != nil {
		return "", err
	}
	return ParseCgroup(b)
}

// Exe returns device and inode of the executable.
func (p *Process) Exe() (dev, ino uint64, err error) {
	var st unix.Stat_t
	err = p.verify(unix.Stat(p.path("exe"), &st))
	return uint64(st.Dev), uint64(st.Ino), err
}

// PIDNS returns the id of the PID namespace the process is in.
func (p *Process) PIDNS() (uint64, error) {
	id, err := nsID(p.path("ns/pid"))
	return id, p.verify(err)
}

// Env returns a variable of the environment the process was started with. The
// process may have overwritten it (setproctitle) and may hide it.
func (p *Process) Env(name string) (string, bool, error) {
	b, err := p.read("environ")
	if err != nil {
		return "", false, err
	}
	v, ok := EnvValue(b, name)
	return v, ok, nil
}

// Command returns the command line, for people; its length is bounded.
func (p *Process) Command() ([]string, error) {
	b, err := p.read("cmdline")
	if err != nil || len(b) == 0 {
		return nil, err
	}
	const most = 4096
	if len(b) > most {
		b = b[:most]
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"), nil
}

// Stuck reports whether a thread of the process is in an uninterruptible wait,
// and names where in the kernel, for people. The process's own state is only
// that of its main thread.
func (p *Process) Stuck() (wchan string, stuck bool) {
	tasks, err := os.ReadDir(p.path("task"))
	if err != nil {
		return "", false
	}
	for _, t := range tasks {
		b, err := readProc(p.path("task/" + t.Name() + "/stat"))
		if err != nil {
			continue
		}
		if row, err := ParseStat(b); err == nil && row.State == 'D' {
			w, _ := readProc(p.path("task/" + t.Name() + "/wchan"))
			if string(w) == "0" {
				w = nil
			}
			return string(w), p.Numbered() == nil
		}
	}
	return "", false
}

// Children lists the children of every thread of the process
// (CONFIG_PROC_CHILDREN). A child that is born or orphaned during the read can
// be missing: look again until nothing changes.
func (p *Process) Children() ([]int, error) {
	if Without("children") {
		return nil, ErrUnsupported
	}
	tasks, err := os.ReadDir(p.path("task"))
	if err = p.verify(err); err != nil {
		return nil, err
	}
	var pids []int
	for _, t := range tasks {
		b, err := readProc(p.path("task/" + t.Name() + "/children"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			// The thread ended: its children moved to another thread.
			if len(tasks) == 1 && p.Numbered() == nil {
				if _, e := os.Stat(p.path("task/" + t.Name())); e == nil {
					return nil, ErrUnsupported
				}
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		kids, err := ParseChildren(b)
		if err != nil {
			return nil, err
		}
		pids = append(pids, kids...)
	}
	return pids, p.Numbered()
}

// Brand is the launch's mark that every descendant inherits: a soft
// RLIMIT_RTTIME far above any real use (microseconds of real-time CPU without
// blocking; 2^62 of them are 146,000 years). Unlike the environment it
// survives execve with a cleared environment, setproctitle and a non-dumpable
// process, and everybody may read it. A process can shed it on purpose; it
// can't come by it by accident.
type Brand uint64

const (
	brandBit    = 1 << 62
	rlimitRTIME = 15 // RLIMIT_RTTIME, <asm-generic/resource.h>
)

// BrandOf derives the brand from the first eight bytes of a launch's id.
func BrandOf(id [16]byte) Brand {
	var v uint64
	for _, b := range id[:8] {
		v = v<<8 | uint64(b)
	}
	return Brand(v&(brandBit-1) | brandBit)
}

// SetBrand marks whoever has the number, which must be ourselves (pid 0) or
// known to be meant; Mark is for everybody else. A process whose limit
// somebody set is left alone: ErrUnsupported. The hard limit stays.
func SetBrand(pid int, b Brand) error {
	_, err := swapBrand(pid, b)
	return err
}

// swapBrand is SetBrand that returns the limit it replaced.
func swapBrand(pid int, b Brand) (old unix.Rlimit, err error) {
	if Without("brand") {
		return old, ErrUnsupported
	}
	if err := unix.Prlimit(pid, rlimitRTIME, nil, &old); err != nil {
		return old, err
	}
	if old.Max != math.MaxUint64 || old.Cur != math.MaxUint64 && old.Cur&brandBit == 0 {
		return old, fmt.Errorf("RLIMIT_RTTIME is set: %w", ErrUnsupported)
	}
	return old, unix.Prlimit(pid, rlimitRTIME, &unix.Rlimit{Cur: uint64(b), Max: old.Max}, nil)
}

// Brand reads the mark; 0 where there is none.
func (p *Process) Brand() (Brand, error) {
	if Without("brand") {
		return 0, ErrUnsupported
	}
	b, err := p.read("limits")
	if err != nil {
		return 0, err
	}
	return ParseBrand(b)
}

// ParseBrand finds the mark in a process's limits; 0 where there is none.
func ParseBrand(limits []byte) (Brand, error) {
	v, ok, err := ParseRTTime(limits)
	if err != nil || !ok || v&brandBit == 0 || v >= 1<<63 {
		return 0, err
	}
	return Brand(v), nil
}

var walks atomic.Int64

// Walks counts the walks of the process table by this process: what a sweep
// must not need for each record.
func Walks() int64 { return walks.Load() }

// ReadTable walks the process table once. A process whose line can't be read
// is left out only if it is gone; any other failure fails the walk, so that
// "not seen" never means "could not look".
func ReadTable() (*Table, error) { return ReadMarked("", math.MaxUint64) }

// ReadMarked is ReadTable that reads the marks of the processes started at tick
// since or later in passing (see Table.Marked): a process that lives for a
// millisecond is gone by the time the walk is over.
func ReadMarked(env string, since uint64) (*Table, error) {
	walks.Add(1)
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	t := NewTable(nil)
	t.Rows = make(map[int]Row, 256)
	for {
		// In small bites, for the same reason.
		names, err := dir.Readdirnames(16)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read /proc: %w", err)
		}
		for _, n := range names {
			if n[0] < '0' || n[0] > '9' {
				continue
			}
			b, err := readProc("/proc/" + n + "/stat")
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue
			}
			if err != nil {
				return nil, err
			}
			row, err := parseStat(b)
			if err != nil {
				return nil, err
			}
			if t.Rows[row.PID] = row; row.Start >= since {
				t.readMark(env, row.PID)
			}
		}
	}
	if _, ok := t.Rows[os.Getpid()]; !ok {
		return nil, errors.New("read /proc: our own process is not listed: /proc is another PID namespace's, or processes are hidden")
	}
	for pid, r := range t.Rows {
		t.kids[r.PPID] = append(t.kids[r.PPID], pid)
	}
	t.read = since
	return t, nil
}

func statusField(b []byte, name string) (string, bool) {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			f := bytes.Fields(rest)
			if len(f) > 0 {
				return string(f[0]), true
			}
		}
	}
	return "", false
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 8192); return &b }}

// readProc reads a small file of /proc whole, with three system calls.
func readProc(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	bp := buffers.Get().(*[]byte)
	defer buffers.Put(bp)
	var out []byte
	for {
		n, err := unix.Read(fd, *bp)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return out, nil
		}
		out = append(out, (*bp)[:n]...)
		if len(out) > 1<<20 {
			return out, nil
		}
		if n < len(*bp)/2 && out[len(out)-1] == '\n' {
			return out, nil
		}
	}
}

// Peek functions read by bare number, unverified: good for choosing whom to
// look at closely, never for a proof.

// PeekBrand returns the mark of whoever has the number now, 0 for none.
func PeekBrand(pid int) Brand {
	p := Process{pid: pid}
	b, err := readProc(p.path("limits"))
	if err != nil || Without("brand") {
		return 0
	}
	brand, _ := ParseBrand(b)
	return brand
}

// PeekEnv returns a variable of whoever has the number now.
func PeekEnv(pid int, name string) (string, bool) {
	p := Process{pid: pid}
	b, err := readProc(p.path("environ"))
	if err != nil {
		return "", false
	}
	return EnvValue(b, name)
}
