package contain

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// Level cgroup: the tree lives in a cgroup v2 directory of its own, which a
// child can leave only with the rights to write another one. One fresh
// directory a launch: a cgroup that was ever killed kills at birth whatever is
// cloned into it later (measured on Linux 6.18).

// CgroupPath returns where the launch's cgroup will be, below a directory that
// host.CgroupBase named.
func CgroupPath(base string, id proof.ID) string {
	return filepath.Join(base, "custody-"+id.String())
}

// MakeCgroup makes the directory named in c and learns its id.
func MakeCgroup(c *ledger.Cgroup) error {
	if err := os.Mkdir(c.Path, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	id, err := host.CgroupDirID(c.Path)
	if err != nil {
		os.Remove(c.Path)
		return err
	}
	c.ID = id
	return nil
}

// openCgroup reports whether the recorded cgroup still exists. A directory of
// the same path with another id is somebody else's.
func openCgroup(c *ledger.Cgroup) (bool, error) {
	id, err := host.CgroupDirID(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, host.CgroupsSeen(c.Path)
	}
	if err != nil {
		return false, err
	}
	// An intent whose owner died before it knew the id: the path carries the
	// launch's 128 random bits.
	return c.ID == 0 || id == c.ID, nil
}

// walkCgroup calls f for dir and every cgroup below it.
func walkCgroup(dir string, f func(dir string) error) error {
	if err := f(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := walkCgroup(filepath.Join(dir, e.Name()), f); err != nil {
				return err
			}
		}
	}
	return nil
}

// cgroupPIDs lists the processes in the cgroup and below, and the ids of the
// cgroups they are in.
func cgroupPIDs(root string) (pids []int, ids map[uint64]bool, err error) {
	ids = make(map[uint64]bool)
	err = walkCgroup(root, func(dir string) error {
		id, err := host.CgroupDirID(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		ids[id] = true
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			return nil
		}
		if errors.Is(err, syscall.EOPNOTSUPP) {
			// A threaded cgroup: its processes are listed at its domain root.
			return nil
		}
		if err != nil {
			return err
		}
		for f := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				return fmt.Errorf("cgroup.procs: %w", err)
			}
			if pid != 0 { // 0: a process of a namespace we can't see
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, ids, err
}

// populated reports whether the cgroup or one below it holds a live process.
func populated(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if v, ok := strings.CutPrefix(s.Text(), "populated "); ok {
			return v != "0", nil
		}
	}
	return true, fmt.Errorf("cgroup %s: no populated line", dir)
}

// RemoveCgroup removes the launch's empty cgroup and those below it. The
// kernel may say busy for a moment after the last exit.
func RemoveCgroup(c *ledger.Cgroup) error {
	root := c.Path
	there, err := openCgroup(c)
	if err != nil || !there {
		return err
	}
	for range 50 {
		var dirs []string
		if err = walkCgroup(root, func(dir string) error { dirs = append(dirs, dir); return nil }); err != nil {
			return err
		}
		for i := len(dirs) - 1; i >= 0; i-- {
			err = syscall.Rmdir(dirs[i])
			if errors.Is(err, syscall.ENOENT) {
				err = nil
			}
		}
		if !errors.Is(err, syscall.EBUSY) {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("remove cgroup %s: %w", root, err)
	}
	return nil
}

func (l *look) cgroupFacts(e *gather, p *host.Process, _ host.Row) {
	if len(l.cgIDs) == 0 {
		return
	}
	id, err := p.CgroupID()
	if err == nil {
		e.add(proof.Cgroup, "PIDFD_GET_INFO cgroupid", proof.Of(l.cgIDs[id]))
		return
	}
	path, err := p.CgroupPath()
	e.add(proof.Cgroup, "/proc/PID/cgroup", told(err, inCgroup(path, l.Rec.ID)))
}

// cgroup takes up the processes of the launch's cgroup, and reports whether
// they could be listed.
func (l *look) cgroup() bool {
	there, err := openCgroup(l.Rec.Cgroup)
	if err != nil {
		l.cannotTell("cgroup", err)
		return false
	}
	if !there {
		return true // removed, so it was empty
	}
	pids, ids, err := cgroupPIDs(l.Rec.Cgroup.Path)
	if err != nil {
		l.cannotTell("cgroup", err)
		return false
	}
	l.cgIDs = ids
	for _, pid := range pids {
		l.candidate(pid)
	}
	if busy, err := populated(l.Rec.Cgroup.Path); err != nil {
		l.cannotTell("cgroup", err)
	} else if busy && len(pids) == 0 {
		l.cannotTell("cgroup", errors.New("it is populated by processes that can't be seen from here"))
	}
	return true
}

// inCgroup reports whether a cgroup path lies in the launch's cgroup, whose
// name carries the launch's 128 random bits.
func inCgroup(path string, id proof.ID) bool {
	name := "custody-" + id.String()
	for part := range strings.SplitSeq(path, "/") {
		if part == name {
			return true
		}
	}
	return false
}
