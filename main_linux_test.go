package custody_test

// The test binary plays every program of these tests: the helpers, the trees,
// and small owners that are killed.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
	"golang.org/x/sys/unix"
)

const roleVar = "CUSTODY_TEST_ROLE"

var roles = map[string]func(order){"owner": playOwner, "sweeper": playSweeper}

// order tells a played owner what to do.
type order struct {
	Dir     string
	Alone   bool // without helper
	Kept    bool
	Pids    string
	OwnDir  string
	Name    string
	Command []string
	Port    int
	End     string // stop, or kill: the owner kills itself
	Scope   bool   // in a scope unit
	Survive bool
	Ports   []int
	Hook    []string
}

func TestMain(m *testing.M) {
	tree.Main()
	var o order
	role := os.Getenv(roleVar)
	if role != "" {
		if err := json.Unmarshal([]byte(os.Getenv(roleVar+"_ORDER")), &o); err != nil {
			fatal(err)
		}
	}
	if !o.Alone {
		custody.ServeHelper()
	}
	if role != "" {
		roles[role](o)
		os.Exit(0)
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

func fatal(v ...any) {
	fmt.Fprintln(os.Stderr, v...)
	os.Exit(1)
}

// play prepares a process of the test binary in a role.
func play(t *testing.T, role string, o order, env ...string) *exec.Cmd {
	t.Helper()
	b, err := json.Marshal(o)
	must(t, err)
	exe, err := os.Executable()
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, exe)
	c.Env = append(os.Environ(), append(env, roleVar+"="+role, roleVar+"_ORDER="+string(b), "PATH=/nowhere")...)
	c.Stderr = os.Stderr
	return c
}

// playOwner starts one launch, waits until its tree is there, and ends.
func playOwner(o order) {
	ctx := context.Background()
	ow, err := custody.Open(ctx, "test", &custody.Options{Dir: o.Dir, WithoutHelper: o.Alone})
	if err != nil {
		fatal(err)
	}
	c := ow.Command(o.Command[0], o.Command[1:]...)
	c.Kept, c.Name, c.ScopeUnit = o.Kept, o.Name, o.Scope
	c.Phases = []custody.Phase{{Signal: syscall.SIGTERM, Wait: 100 * time.Millisecond}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
	c.TempDirs = []string{"D1", "D2"}
	if o.OwnDir != "" {
		c.OwnDirs = []string{o.OwnDir}
	}
	if o.Port != 0 {
		c.Ports = []int{o.Port}
	}
	c.StopHook = o.Hook
	if o.Survive {
		c.OnOwnerDeath = custody.Survive
	}
	if err := c.Start(); err != nil {
		fmt.Println("start:", err)
		ow.Close()
		return
	}
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := tree.Wait(wait, o.Pids, 3); err != nil {
		fatal(err)
	}
	fmt.Println("started", c.Launch().ID())
	if o.End == "kill" {
		suicide()
	}
	if _, err := c.Launch().Stop(ctx); err != nil {
		fatal(err)
	}
	if err := ow.Close(); err != nil {
		fatal(err)
	}
}

func playSweeper(o order) {
	if _, err := custody.Sweep(context.Background(), custody.SweepOptions{Dir: o.Dir}); err != nil {
		fatal(err)
	}
}

func suicide() {
	p, _ := os.FindProcess(os.Getpid())
	p.Kill()
	select {}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until polls: generous, since the machine may be busy.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "custody-test-state-")
	must(t, err)
	// A helper on its way out may still tidy up in there.
	t.Cleanup(func() {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if err := os.RemoveAll(dir); err == nil {
				return
			} else if time.Now().After(end) {
				t.Error(err)
				return
			}
		}
	})
	return dir
}

var adopters struct {
	sync.Mutex
	n int
}

// adopt makes this process the one to which orphans come, as long as the test
// runs: those of other tests are too many to lie here uncollected.
func adopt(t *testing.T) {
	t.Helper()
	set := func(by int) {
		adopters.Lock()
		defer adopters.Unlock()
		adopters.n += by
		must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(min(adopters.n, 1)), 0, 0, 0))
	}
	set(1)
	t.Cleanup(func() { set(-1) })
}

// kids lists our children by pid: their command line, "" for a dead one.
func kids(t *testing.T) map[int]string {
	t.Helper()
	out := map[int]string{}
	tasks, err := os.ReadDir("/proc/self/task")
	must(t, err)
	for _, task := range tasks {
		b, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, f := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(f)
			must(t, err)
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			out[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return out
}

// orphans collects those adopted children that have ended and returns the
// others; mine are not touched.
func orphans(t *testing.T, mine ...int) map[int]string {
	t.Helper()
	left := kids(t)
	for _, pid := range mine {
		delete(left, pid)
	}
	for pid := range left {
		var ws unix.WaitStatus
		if got, err := unix.Wait4(pid, &ws, unix.WNOHANG, nil); got == pid || err == unix.ECHILD {
			delete(left, pid)
		}
	}
	return left
}

// stranger starts a process that logs every signal it gets, with the same
// arguments as the launch's leader has.
func stranger(t *testing.T, dir string) (pid int, log string) {
	t.Helper()
	log = filepath.Join(dir, "stranger.log")
	pids := filepath.Join(dir, "stranger.pids")
	args := tree.Command("siglog", "-n", "0", "-log", log, "-pids", pids, "-life", "20m")
	c := exec.Command(args[0], args[1:]...)
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := tree.Wait(ctx, pids, 1)
	must(t, err)
	return c.Process.Pid, log
}

// untouched fails if the stranger got a signal or is not there.
func untouched(t *testing.T, pid int, log string) {
	t.Helper()
	if b, _ := os.ReadFile(log); len(b) > 0 {
		t.Errorf("the stranger got %s", b)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || strings.Contains(string(b), ") Z ") {
		t.Errorf("the stranger is gone: %s %v", b, err)
	}
}

// alive lists which of the announced processes live.
func alive(t *testing.T, pids string) []tree.Proc {
	t.Helper()
	procs, err := tree.ReadPids(pids)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var left []tree.Proc
	for _, p := range procs {
		if lives(p) {
			left = append(left, p)
		}
	}
	return left
}

// lives asks a process's handle; a number given to another one does not count.
func lives(p tree.Proc) bool {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if p.Inode != 0 && (unix.Fstat(fd, &st) != nil || st.Ino != p.Inode) {
		return false
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err != nil || n == 0
}

// endTree kills what a failed test left of its tree.
func endTree(t *testing.T, pids string) {
	procs, _ := tree.ReadPids(pids)
	for _, p := range procs {
		fd, err := unix.PidfdOpen(p.PID, 0)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if p.Inode != 0 && unix.Fstat(fd, &st) == nil && st.Ino == p.Inode {
			unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		unix.Close(fd)
	}
}
