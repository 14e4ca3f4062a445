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
		if err = c.Start(); err == nil {
			fmt.Println(c.Launch().ID(), c.Launch().PID())
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

// I3, as far as it is kept: a launch that survives outlives its owner, sweeps
// pass it over, and it is still custody's to stop.
func TestSurvivorOutlivesItsOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), ownerEnv+"="+dir)
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
	var pid int
	if _, e := fmt.Sscan(line, &name, &pid); err != nil || e != nil {
		t.Fatalf("owner said %q (%v, %v)", line, err, e)
	}
	id, err := custody.ParseID(name)
	if err != nil {
		t.Fatalf("owner said %q: %v", line, err)
	}
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
	c := o.Command("touch", ran)
	c.Require = custody.LevelJob
	if err := c.Start(); !errors.Is(err, custody.ErrLevel) {
		t.Errorf("level job on Linux: %v, want ErrLevel", err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran below the level it required")
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
