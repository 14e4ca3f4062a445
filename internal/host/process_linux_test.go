package host

// The handle against real processes: what it still means after the end, after
// the reap, in another program, and while it is closed under our hands.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/tree"
	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

const reopenVar = "HOST_TEST_REOPEN"

func TestMain(m *testing.M) {
	tree.Main()
	if s := os.Getenv(reopenVar); s != "" {
		var id proof.Identity
		if err := json.Unmarshal([]byte(s), &id); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(reopened(id))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// reopened says in one word what became of a recorded process.
func reopened(id proof.Identity) string {
	p, err := Recognise(id)
	if errors.Is(err, os.ErrProcessDone) {
		return "done"
	}
	if err != nil {
		return err.Error()
	}
	defer p.Close()
	exited, err := p.Exited()
	if err != nil {
		return err.Error()
	}
	return map[bool]string{true: "exited", false: "lives"}[exited]
}

// elsewhere asks another process, as after a crash.
func elsewhere(t *testing.T, id proof.Identity, env ...string) string {
	t.Helper()
	b, err := json.Marshal(id)
	must(t, err)
	exe, err := os.Executable()
	must(t, err)
	c := exec.Command(exe)
	c.Env = append(os.Environ(), append(env, reopenVar+"="+string(b))...)
	out, err := c.Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start runs a tree program and waits for n lines.
func start(t *testing.T, n int, name string, args ...string) (*exec.Cmd, []tree.Proc) {
	t.Helper()
	pids := filepath.Join(t.TempDir(), "pids")
	argv := tree.Command(name, append([]string{"-pids", pids, "-life", "40s"}, args...)...)
	c := exec.Command(argv[0], argv[1:]...)
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	must(t, c.Start())
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		procs, _ := tree.ReadPids(pids)
		for _, p := range procs {
			if q, err := Open(p.PID); err == nil {
				if ino, err := q.Inode(); err == nil && ino == p.Inode {
					q.Use(func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) })
				}
				q.Close()
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	procs, err := tree.Wait(ctx, pids, n)
	must(t, err)
	return c, procs
}

func open(t *testing.T, pid int) *Process {
	t.Helper()
	p, err := Open(pid)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func TestLifeOfAHandle(t *testing.T) {
	c, _ := start(t, 1, "sleep")
	p := open(t, c.Process.Pid)
	id, err := p.Identity()
	must(t, err)
	must(t, id.Valid())
	if id.PID != c.Process.Pid || id.SID != id.PID || id.PGID != id.PID || id.UID != os.Getuid() || id.ExeIno == 0 {
		t.Errorf("%+v", id)
	}
	if gone, err := p.Exited(); gone || err != nil {
		t.Errorf("alive: exited %v, %v", gone, err)
	}
	if err := p.Numbered(); err != nil {
		t.Errorf("alive: %v", err)
	}
	if got := elsewhere(t, id); got != "lives" {
		t.Errorf("another process says %s", got)
	}
	if got := elsewhere(t, id, "CUSTODY_DEBUG_WITHOUT=handle"); got != "lives" {
		t.Errorf("by inode: %s", got)
	}
	if got := elsewhere(t, id, "CUSTODY_DEBUG_WITHOUT=handle,inode,info"); got != "lives" {
		t.Errorf("by start time: %s", got)
	}

	// Dead, not collected: its number is still its own.
	must(t, c.Process.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must(t, p.WaitExit(ctx))
	if gone, err := p.Exited(); !gone || err != nil {
		t.Errorf("zombie: exited %v, %v", gone, err)
	}
	if err := p.Numbered(); err != nil {
		t.Errorf("zombie: %v", err)
	}
	if got := elsewhere(t, id); got != "exited" {
		t.Errorf("zombie, another process says %s", got)
	}

	// Collected.
	c.Wait()
	if err := p.Numbered(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("collected: %v", err)
	}
	for what, err := range map[string]error{
		"stat": second(p.Stat()), "uid": second(p.UID()), "identity": second(p.Identity()),
		"children": second(p.Children()), "reopen": second(Reopen(id)), "command": second(p.Command()),
		"brand": second(p.Brand()), "open": second(Open(id.PID)),
	} {
		if !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("collected: %s: %v", what, err)
		}
	}
	for _, without := range []string{"", "CUSTODY_DEBUG_WITHOUT=handle", "CUSTODY_DEBUG_WITHOUT=handle,inode,info"} {
		if got := elsewhere(t, id, without); got != "done" {
			t.Errorf("collected, %s: another process says %s", without, got)
		}
	}
	if st, err := p.ExitStatus(); err != nil && !errors.Is(err, ErrUnsupported) || err == nil && unix.WaitStatus(st).Signal() != unix.SIGKILL {
		t.Errorf("status of a collected process: %#x, %v", st, err)
	}
}

func second[T any](_ T, err error) error { return err }

// The leader is dead and collected, its group lives: pidfd_open of its number
// fails, the recorded handle opens.
func TestHandleOfACollectedLeader(t *testing.T) {
	c, procs := start(t, 4, "leader-dies", "-leader", "stay", "-n", "3")
	p := open(t, c.Process.Pid)
	id, err := p.Identity()
	must(t, err)
	c.Process.Kill()
	c.Wait()
	if _, err := Open(id.PID); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("open by number: %v", err)
	}
	if got := elsewhere(t, id); got != "exited" {
		t.Errorf("while its group lives: %s", got)
	}
	var members []*Process
	for _, m := range procs {
		if m.Role == "member" {
			members = append(members, open(t, m.PID))
		}
	}
	q, err := Reopen(id)
	must(t, err)
	must(t, q.Use(func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 1<<2) }))
	q.Close()
	for _, m := range members {
		until(t, "a member ends", func() bool { gone, err := m.Exited(); return gone && err == nil })
	}
	until(t, "the handle is stale", func() bool { return elsewhere(t, id) == "done" })
}

// State Z with a live thread: /proc shows a zombie, the handle knows better.
func TestMainThreadEnded(t *testing.T) {
	c, procs := start(t, 1, "thread-main-exit")
	p := open(t, procs[0].PID)
	row, err := p.Stat()
	must(t, err)
	if row.State != 'Z' || !row.Zombie() {
		t.Fatalf("state %c", row.State)
	}
	if gone, err := p.Exited(); gone || err != nil {
		t.Errorf("exited %v, %v", gone, err)
	}
	if err := p.Numbered(); err != nil {
		t.Error(err)
	}
	if _, err := p.Identity(); err != nil {
		t.Errorf("identity: %v", err)
	}
	must(t, p.Use(func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }))
	until(t, "it ends", func() bool { gone, err := p.Exited(); return gone && err == nil })
	c.Wait()
}

func TestRecogniseAnother(t *testing.T) {
	c, _ := start(t, 1, "sleep")
	p := open(t, c.Process.Pid)
	id, err := p.Identity()
	must(t, err)
	for what, change := range map[string]func(*proof.Identity){
		"handle":   func(i *proof.Identity) { i.FileHandle = strings.Repeat("0", len(i.FileHandle)) },
		"garbage":  func(i *proof.Identity) { i.FileHandle = "zz" },
		"short":    func(i *proof.Identity) { i.FileHandle = "00" },
		"type":     func(i *proof.Identity) { i.FileHandleType = 1 },
		"inode":    func(i *proof.Identity) { i.FileHandle, i.Inode = "", i.Inode+1 },
		"start":    func(i *proof.Identity) { i.FileHandle, i.Inode, i.Start = "", 0, i.Start-1 },
		"exe":      func(i *proof.Identity) { i.FileHandle, i.Inode, i.ExeIno = "", 0, i.ExeIno+1 },
		"dead pid": func(i *proof.Identity) { i.FileHandle, i.PID = "", 1<<22 },
	} {
		bad := id
		change(&bad)
		if q, err := Recognise(bad); err == nil {
			t.Errorf("%s: taken for the recorded process", what)
			q.Close()
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, pid := range []int{0, -1, -os.Getpid(), 1<<22 + 1, 1 << 31} {
		if p, err := Open(pid); err == nil {
			p.Close()
			t.Errorf("opened %d", pid)
		}
	}
	// The number of a thread is not one of a process.
	tid := 0
	tasks, err := os.ReadDir("/proc/self/task")
	must(t, err)
	for _, task := range tasks {
		if n, _ := strconv.Atoi(task.Name()); n != os.Getpid() {
			tid = n
		}
	}
	if p, err := Open(tid); err == nil {
		p.Close()
		t.Errorf("opened thread %d", tid)
	} else if !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("thread: %v", err)
	}
}

func TestCloseRacesUse(t *testing.T) {
	c, _ := start(t, 1, "sleep")
	for range 50 {
		p, err := Open(c.Process.Pid)
		must(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					ok := []error{second(p.Exited()), p.Numbered(), second(p.Inode()), second(p.Dup2())}
					PollExit([]*Process{p}, 0)
					for _, err := range ok {
						if errors.Is(err, os.ErrClosed) {
							return
						}
						if err != nil {
							t.Errorf("use: %v", err)
							return
						}
					}
				}
			})
		}
		time.Sleep(200 * time.Microsecond)
		must(t, p.Close())
		must(t, p.Close())
		wg.Wait()
	}
}

// Dup2 is Dup for a test that has no use for the copy.
func (p *Process) Dup2() (int, error) {
	q, err := p.Dup()
	if err == nil {
		err = q.Close()
	}
	return 0, err
}

func TestNoDescriptorIsLeft(t *testing.T) {
	c, _ := start(t, 1, "sleep")
	p := open(t, c.Process.Pid)
	id, err := p.Identity()
	must(t, err)
	work := func() {
		must(t, second(p.Identity()))
		for _, f := range []func() error{
			func() error { return second(p.Children()) }, func() error { return second(p.Command()) },
			func() error { return second(p.PIDNS()) }, func() error { return second(p.Brand()) },
			func() error { return second(Here()) }, func() error { return second(Ancestors()) },
			func() error { return second(ReadTable()) }, func() error { return second(p.Dup2()) },
			func() error {
				q, err := Recognise(id)
				if err == nil {
					q.Close()
				}
				return err
			},
			func() error {
				bad := id
				bad.FileHandle, bad.Inode = "", bad.Inode+1
				_, err := Recognise(bad)
				if errors.Is(err, os.ErrProcessDone) {
					err = nil
				}
				return err
			},
			func() error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				if err := p.WaitExit(ctx); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("wait: %v", err)
				}
				return nil
			},
		} {
			must(t, f())
		}
	}
	work() // what is opened once, such as the poller
	before := descriptors(t)
	for range 10 {
		work()
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(d)
}

func TestBrandIsInherited(t *testing.T) {
	if Without("brand") {
		t.Skip("switched off")
	}
	c, procs := start(t, 3, "leader-dies", "-leader", "stay", "-n", "2")
	p := open(t, c.Process.Pid)
	if b, err := p.Brand(); b != 0 || err != nil {
		t.Fatalf("unbranded: %x, %v", b, err)
	}
	want := BrandOf(proof.NewID())
	must(t, SetBrand(c.Process.Pid, want))
	if b, err := p.Brand(); b != want || err != nil {
		t.Errorf("%x, want %x, %v", b, want, err)
	}
	if b := PeekBrand(c.Process.Pid); b != want {
		t.Errorf("peek: %x", b)
	}
	for _, m := range procs {
		if m.Role == "member" && PeekBrand(m.PID) != 0 {
			t.Error("what was forked before bears it")
		}
	}
	kids, err := p.Children()
	if err != nil || len(kids) != 2 {
		t.Errorf("children %v, %v", kids, err)
	}
}

func TestStateOfAForeignName(t *testing.T) {
	c, procs := start(t, 1, "rename", "-name", ") S 1 1")
	p := open(t, procs[0].PID)
	row, err := p.Stat()
	if err != nil || row.PPID != os.Getpid() || row.SID != c.Process.Pid {
		t.Errorf("%+v, %v", row, err)
	}
}
