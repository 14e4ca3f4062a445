package promises

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

const ownerEnv = "PROMISES_OWNER_DIR"

func TestMain(m *testing.M) {
	custody.ServeHelper()
	if dir := os.Getenv(ownerEnv); dir != "" {
		surviving(dir)
	}
	os.Exit(m.Run())
}

// surviving is an owner that starts one launch that is to survive it.
func surviving(dir string) {
	o, err := custody.Open(context.Background(), "promises", &custody.Options{Dir: dir})
	if err == nil {
		c := o.Command("sleep", "60")
		c.Kept, c.OnOwnerDeath = true, custody.Survive
		c.TempDirs = []string{"PROFILE"}
		if err = c.Start(); err == nil {
			fmt.Println(c.Launch().ID(), c.Launch().PID(), c.Launch().Dirs()[0])
		}
	}
	if err != nil {
		fmt.Println("error:", err)
	}
	time.Sleep(60 * time.Second)
	os.Exit(0)
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// survivor starts an owner with one surviving launch and kills the owner.
func survivor(t *testing.T, dir string) (id custody.ID, pid int, temp string) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), ownerEnv+"="+dir, "TMPDIR="+t.TempDir(), "CUSTODY_DEBUG_WITHOUT=cgroup")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	c.Process.Kill()
	c.Wait()
	var name string
	if _, e := fmt.Sscan(line, &name, &pid, &temp); err != nil || e != nil {
		t.Fatalf("owner said %q (%v, %v)", line, err, e)
	}
	if id, err = custody.ParseID(name); err != nil {
		t.Fatalf("owner said %q: %v", line, err)
	}
	return id, pid, temp
}

// I3, as far as it is kept: a launch that survives outlives its owner, sweeps
// pass it over, and it is still custody's to stop.
func TestSurvivorOutlivesItsOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	id, pid, _ := survivor(t, dir)
	ctx := context.Background()
	for range 2 {
		rep, err := custody.Sweep(ctx, custody.SweepOptions{Dir: dir})
		if err != nil || len(rep.Launches) != 1 {
			t.Fatalf("sweep: %+v, %v: want the one launch", rep, err)
		}
		if l := rep.Launches[0]; l.ID != id || l.Outcome != "survives" || l.Verdict != custody.Owned || len(l.Signalled) > 0 {
			t.Fatalf("swept: %+v, want it owned, surviving and without a signal", l)
		}
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil || string(b) != "sleep\n" {
		t.Fatalf("process %d is %q (%v), want sleep alive", pid, b, err)
	}
	if res, err := custody.Stop(ctx, id.String(), custody.StopOptions{Dir: dir}); err != nil || res.Outcome != "gone" {
		t.Fatalf("stop: %+v, %v", res, err)
	}
	until(t, "the survivor's end", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
		return err != nil
	})
}

// I7: what can't be had is refused before the command runs, and what is
// claimed can be seen in the kernel.
func TestLevelClaimedIsAchieved(t *testing.T) {
	o, err := custody.Open(context.Background(), "promises", &custody.Options{Dir: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	ran := filepath.Join(t.TempDir(), "ran")
	for _, kept := range []bool{false, true} {
		c := o.Command("touch", ran)
		c.Kept, c.Require = kept, custody.LevelJob
		if err := c.Start(); !errors.Is(err, custody.ErrLevel) {
			t.Errorf("level job on Linux, kept %v: %v, want ErrLevel", kept, err)
			c.Wait()
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("kept %v: the command ran below the level it required", kept)
		}
	}
	for _, kept := range []bool{false, true} {
		c := o.Command("sleep", "60")
		c.Kept = kept
		c.Phases = []custody.Phase{{Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		l := c.Launch()
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.PID()))
		if err != nil {
			t.Fatal(err)
		}
		// state ppid pgrp session
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		cg, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", l.PID()))
		own := strings.Contains(string(cg), "custody-"+l.ID().String())
		pid := fmt.Sprint(l.PID())
		if f[2] != pid || f[3] != pid {
			t.Errorf("level %s: leader %s is in group %s and session %s", l.Level(), pid, f[2], f[3])
		}
		if (l.Level() == custody.LevelCgroup) != own {
			t.Errorf("level %s: own cgroup %v", l.Level(), own)
		}
		if below := f[1] != fmt.Sprint(os.Getpid()); below != kept {
			t.Errorf("kept %v: parent is %s, we are %d", kept, f[1], os.Getpid())
		}
		l.Stop(context.Background())
	}
}

// I8: no goroutine, descriptor, child or signal handler is left after Close.
func TestCloseLeavesNothing(t *testing.T) {
	once := func() {
		o, err := custody.Open(context.Background(), "promises", &custody.Options{Dir: filepath.Join(t.TempDir(), "state")})
		if err != nil {
			t.Fatal(err)
		}
		for _, kept := range []bool{false, true} {
			c := o.Command("sleep", "60")
			c.Kept = kept
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	once() // what the runtime opens once for all (epoll, and threads)
	handlers := caught(t)
	goroutines, fds := runtime.NumGoroutine(), descriptors(t)
	for range 3 {
		once()
	}
	until(t, "goroutines after Close", func() bool { return runtime.NumGoroutine() <= goroutines })
	until(t, "descriptors after Close", func() bool { return len(descriptors(t)) <= len(fds) })
	if now := caught(t); now != handlers {
		t.Errorf("signal dispositions: %s before, %s after", handlers, now)
	}
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range tasks {
		if b, err := os.ReadFile(f); err == nil && len(b) > 0 {
			for pid := range strings.FieldsSeq(string(b)) {
				stat, _ := os.ReadFile("/proc/" + pid + "/stat")
				t.Errorf("child left: %s", stat)
			}
		}
	}
}

func descriptors(t *testing.T) []string {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Name())
	}
	slices.Sort(out)
	return out
}

// caught returns which signals are blocked, ignored and caught.
func caught(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "Sig") && !strings.HasPrefix(line, "SigQ") && !strings.HasPrefix(line, "SigPnd") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, " ")
}

// I2: an owner is not left without its watchdog.
func TestWatchdogIsReplaced(t *testing.T) {
	replaced := make(chan int, 8)
	o, err := custody.Open(context.Background(), "promises", &custody.Options{
		Dir: filepath.Join(t.TempDir(), "state"),
		OnEvent: func(e custody.Event) {
			if e.Kind == custody.WatchdogReplaced {
				replaced <- e.PID
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if err := o.Command("sleep", "60").Start(); err != nil {
		t.Fatal(err)
	}
	killed := 0
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		for pid := range strings.FieldsSeq(string(b)) {
			// Our own child: its number is its own until the library waits.
			line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if strings.HasPrefix(string(line), "custody-watchdog") {
				var n int
				fmt.Sscan(pid, &n)
				syscall.Kill(n, syscall.SIGKILL)
				killed = n
			}
		}
	}
	if killed == 0 {
		t.Fatal("there is no watchdog")
	}
	select {
	case n := <-replaced:
		if n == killed {
			t.Errorf("the new watchdog is %d, like the old one", n)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the watchdog was not replaced")
	}
}

// I2, I7: without its keeper a launch can't be held at its level, so it ends;
// the leader's end is still known.
func TestKeepersDeathEndsTheLaunch(t *testing.T) {
	o, err := custody.Open(context.Background(), "promises", &custody.Options{Dir: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	c := o.Command("sleep", "60")
	c.Kept = true
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Launch().PID()))
	if err != nil {
		t.Fatal(err)
	}
	var state string
	var keeper int
	fmt.Sscan(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), &state, &keeper)
	if keeper == os.Getpid() || keeper <= 1 {
		t.Fatalf("the leader's parent is %d: no keeper", keeper)
	}
	syscall.Kill(keeper, syscall.SIGKILL) // our own child
	select {
	case <-c.Launch().Gone():
	case <-time.After(30 * time.Second):
		t.Fatal("the launch lives on without its keeper")
	}
	var x *exec.ExitError
	if err := c.Wait(); !errors.As(err, &x) || x.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("Wait: %v, want an ExitError with signal TERM", err)
	}
}

// I4, I6: after a reboot nothing of the record lives, whatever has its numbers
// now: no signal, and the directory is still ours to free.
func TestAnotherBoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	id, pid, temp := survivor(t, dir)
	p, err := os.FindProcess(pid) // a handle
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "promises", "*", "*.json"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		other := strings.ReplaceAll(string(b), strings.TrimSpace(string(boot)), "00000000-0000-4000-8000-000000000000")
		if err := os.WriteFile(f, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := custody.Sweep(context.Background(), custody.SweepOptions{Dir: dir})
	if err != nil || len(rep.Launches) != 1 || rep.Launches[0].ID != id {
		t.Fatalf("sweep: %+v, %v: want the one launch", rep, err)
	}
	l := rep.Launches[0]
	if len(l.Signalled) > 0 {
		t.Errorf("signalled %v for a record of another boot", l.Signalled)
	}
	_, err = os.Stat(temp)
	if host, e := os.ReadFile("/etc/machine-id"); e != nil || len(host) < 2 {
		// Without a machine id another boot may be another machine.
		if err != nil || l.Outcome == "gone" {
			t.Errorf("no machine id: outcome %s, directory %v: want both kept", l.Outcome, err)
		}
	} else if err == nil || l.Outcome != "gone" {
		t.Errorf("outcome %s (%s), directory %v: want gone and freed", l.Outcome, l.Reason, err)
	}
	if err := p.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process with the recorded number: %v", err)
	}
}
