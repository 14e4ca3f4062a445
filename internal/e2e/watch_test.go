//go:build linux

// Watching processes by handles of our own: the words GONE and UNTOUCHED.

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/tree"
	"golang.org/x/sys/unix"
)

// stays is how long a tree is watched after it was gone.
const stays = time.Second

// handle is a process opened while it was known to be the one meant.
type handle struct {
	tree.Proc
	fd int // -1 if it had ended already
}

// openExactly opens a process that announced itself.
func openExactly(p tree.Proc) handle {
	h := handle{p, -1}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return h
	}
	if row, err := stat(p.PID); err != nil || row.Start != p.Start {
		unix.Close(fd)
		return h
	}
	h.fd = fd
	return h
}

func stat(pid int) (host.Row, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return host.Row{}, err
	}
	return host.ParseStat(b)
}

func (h handle) ended() bool { return h.ends(0) }

// ends waits until the last thread of the process has ended.
func (h handle) ends(within time.Duration) bool {
	if h.fd < 0 {
		return true
	}
	for end := time.Now().Add(within); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}, int(max(time.Until(end), 0)/time.Millisecond))
		if err != unix.EINTR {
			return n == 1
		}
	}
}

func (h handle) signal(sig syscall.Signal) {
	if h.fd >= 0 {
		unix.PidfdSendSignal(h.fd, sig, nil, 0)
	}
}

// stopped reports whether every thread is stopped.
func (h handle) stopped() bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", h.PID))
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		if i := bytes.LastIndexByte(b, ')'); i < 0 || !bytes.HasPrefix(b[i:], []byte(") T")) {
			return false
		}
	}
	return len(tasks) > 0
}

func (h handle) close() {
	if h.fd >= 0 {
		unix.Close(h.fd)
	}
}

func (h handle) String() string {
	row, err := stat(h.PID)
	return fmt.Sprintf("%s %d (state %c, parent %d, %v)", h.Role, h.PID, row.State, row.PPID, err)
}

// watch is a tree under watch.
type watch struct {
	t     *testing.T
	file  string
	all   []handle
	elder bool // zombies may stay: their parent is a stranger
}

// watch waits until n processes announced themselves, and opens them.
func (r *rig) watch(n int) *watch { r.t.Helper(); return r.watchIn("pids", n) }

func (r *rig) watchIn(pids string, n int) *watch {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w := &watch{t: r.t, file: r.file(pids)}
	procs, err := tree.Wait(ctx, w.file, n)
	for _, p := range procs {
		w.all = append(w.all, openExactly(p))
	}
	r.t.Cleanup(func() {
		for _, h := range append(w.all, w.late()...) {
			h.signal(unix.SIGKILL)
			h.ends(5 * time.Second)
			h.close()
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// late opens what announced itself since.
func (w *watch) late() []handle {
	var out []handle
	procs, _ := tree.ReadPids(w.file)
	for _, p := range procs[min(len(w.all), len(procs)):] {
		out = append(out, openExactly(p))
	}
	return out
}

// role returns the first process of a role.
func (w *watch) role(name string) handle {
	w.t.Helper()
	for _, h := range w.all {
		if h.Role == name {
			return h
		}
	}
	w.t.Fatalf("no %s among %v", name, w.all)
	return handle{}
}

func (w *watch) living() []handle {
	var out []handle
	for _, h := range w.all {
		if !h.ended() {
			out = append(out, h)
		}
	}
	return out
}

// alive says that these roles live, or every process if none is given.
func (w *watch) alive(when string, roles ...string) {
	w.t.Helper()
	for _, h := range w.all {
		wanted := len(roles) == 0
		for _, r := range roles {
			wanted = wanted || r == h.Role
		}
		if wanted && h.ended() {
			w.t.Errorf("%s: %s has ended", when, h)
		}
	}
}

// gone is GONE(within) of the cases.
func (w *watch) gone(since time.Time, within time.Duration) {
	w.t.Helper()
	for _, h := range w.all {
		if !h.ends(time.Until(since.Add(within))) {
			w.t.Errorf("after %v: %s lives", within, h)
		}
	}
	if w.t.Failed() {
		return
	}
	w.t.Logf("gone after %v", time.Since(since).Round(time.Millisecond))
	w.collected()
	time.Sleep(stays)
	for _, h := range w.late() {
		if !h.ended() {
			w.t.Errorf("%s came to life later", h)
		}
		h.close()
	}
}

// collected says that no zombie is left after two seconds. Those that came to
// this process are its own to collect.
func (w *watch) collected() {
	w.t.Helper()
	end := time.Now().Add(2 * time.Second)
	for _, h := range w.all {
		for {
			row, err := stat(h.PID)
			if err != nil || row.Start != h.Start || w.elder {
				break
			}
			if row.PPID == os.Getpid() {
				unix.Wait4(h.PID, nil, unix.WNOHANG, nil)
			} else if time.Now().After(end) {
				w.t.Errorf("%s is not collected", h)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// stranger is a process that is none of custody's business.
type stranger struct {
	t *testing.T
	handle
	log string
}

// strangerBy starts one by a command; it is the n-th to announce itself in the
// file pids.
func (r *rig) strangerBy(log string, argv, env []string, pids string, n int) *stranger {
	r.t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	w := r.watchIn(pids, n)
	return &stranger{r.t, w.all[len(w.all)-1], log}
}

// untouched is UNTOUCHED of the cases.
func (s *stranger) untouched(when string) {
	s.t.Helper()
	row, err := stat(s.PID)
	switch {
	case s.ended():
		s.t.Errorf("%s: the stranger has ended", when)
	case err != nil || row.Start != s.Start:
		s.t.Errorf("%s: the stranger is another one: %v %v", when, row, err)
	case row.State == 'T' || row.State == 't':
		s.t.Errorf("%s: the stranger is stopped", when)
	}
	if got := signals(s.t, s.log); len(got) > 0 {
		s.t.Errorf("%s: the stranger got %q", when, got)
	}
}

// helpersOf opens the watchdog and keepers of a process.
func helpersOf(t *testing.T, pid int) []handle {
	t.Helper()
	var out []handle
	for _, kid := range childrenOf(t, pid) {
		fd, err := unix.PidfdOpen(kid, 0)
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", kid))
		role := strings.SplitN(string(line), "\x00", 2)[0]
		if role != "custody-watchdog" && role != "custody-keeper" {
			unix.Close(fd)
			continue
		}
		out = append(out, handle{tree.Proc{Role: role, PID: kid}, fd})
	}
	if len(out) == 0 {
		t.Fatalf("process %d has no helper", pid)
	}
	return out
}

func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, task := range tasks {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for f := range strings.FieldsSeq(string(b)) {
			n, _ := strconv.Atoi(f)
			out = append(out, n)
		}
	}
	return out
}

// signalOf returns the signal a command died of, 0 if none.
func signalOf(cmd *exec.Cmd) syscall.Signal {
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return ws.Signal()
	}
	return 0
}

// procOf is the identity of a process of the table.
func procOf(row host.Row) tree.Proc {
	return tree.Proc{Role: row.Comm, PID: row.PID, Start: row.Start, PGID: row.PGID, SID: row.SID}
}

// collect collects what came to this process and has ended.
func (w *watch) collect() {
	for _, h := range w.all {
		if row, err := stat(h.PID); err == nil && row.Start == h.Start && row.PPID == os.Getpid() {
			unix.Wait4(h.PID, nil, unix.WNOHANG, nil)
		}
	}
}
