package custody_test

// An owner's promises that need no crash: names are leases, a full disk stops
// no stop, nothing is left after Close.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func openOwner(t *testing.T, opt custody.Options) *custody.Owner {
	t.Helper()
	o, err := custody.Open(t.Context(), "test", &opt)
	must(t, err)
	t.Cleanup(func() { o.Close() })
	return o
}

// sleeper is a launch with a plan that takes a while to end.
func sleeper(o *custody.Owner, kept bool) *custody.Cmd {
	c := o.Command("sleep", "60")
	c.Kept = kept
	c.Phases = []custody.Phase{{Signal: syscall.SIGTERM, Wait: 10 * time.Second}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
	return c
}

func bothKinds(t *testing.T, f func(t *testing.T, kept bool)) {
	t.Run("direct", func(t *testing.T) { f(t, false) })
	t.Run("kept", func(t *testing.T) { f(t, true) })
}

func TestNameIsALease(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		dir := stateDir(t)
		o, other := openOwner(t, custody.Options{Dir: dir}), openOwner(t, custody.Options{Dir: dir})
		first := sleeper(o, kept)
		first.Name = "n"
		must(t, first.Start())
		for _, from := range []*custody.Owner{o, other} {
			c := sleeper(from, kept)
			c.Name = "n"
			err := c.Start()
			var held *custody.NameHeldError
			if !errors.Is(err, custody.ErrNameHeld) || !errors.As(err, &held) || held.Holder != first.Launch().ID() {
				t.Fatalf("second start: %v", err)
			}
		}
		// Waiting ends with the context, or with the first one's tree.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		c := other.CommandContext(ctx, "sleep", "60")
		c.Kept, c.Name, c.WaitName = kept, "n", true
		if err := c.Start(); !errors.Is(err, custody.ErrNameHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("waited in vain: %v", err)
		}
		got := make(chan error, 1)
		second := sleeper(other, kept)
		second.Name, second.WaitName = "n", true
		go func() { got <- second.Start() }()
		select {
		case err := <-got:
			t.Fatalf("did not wait: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		_, err := first.Launch().Stop(t.Context())
		must(t, err)
		select {
		case err := <-got:
			must(t, err)
		case <-time.After(20 * time.Second):
			t.Fatal("never got the name")
		}
		if n := len(other.Launches()); n != 1 {
			t.Errorf("%d launches", n)
		}
		first.Wait()
	})
}

// The owner died and nothing watches: its tree still holds the name.
func TestNameOutlivesItsOwner(t *testing.T) {
	adopt(t)
	dir := stateDir(t)
	pids := filepath.Join(dir, ".pids")
	t.Cleanup(func() { endTree(t, pids) })
	ord := order{Dir: dir, Alone: true, Pids: pids, Name: "n", End: "kill",
		Command: tree.Command("leader-dies", "-leader", "stay", "-n", "2", "-ignore", "TERM", "-pids", pids, "-life", "60s")}
	expectKilled(t, "owner", play(t, "owner", ord).Run())
	o := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
	c := sleeper(o, false)
	c.Name = "n"
	if err := c.Start(); !errors.Is(err, custody.ErrNameHeld) {
		t.Fatalf("start beside the live tree: %v", err)
	}
	if len(alive(t, pids)) != 3 {
		t.Fatal("the tree was touched")
	}
	c = sleeper(o, false)
	c.Name, c.WaitName = "n", true
	must(t, c.Start())
	if left := alive(t, pids); len(left) > 0 {
		t.Errorf("two trees under one name: %v", left)
	}
	until(t, "orphans are collected", func() bool { return len(orphans(t, c.Process.Pid, childOf(t, "custody-watchdog"))) == 0 })
}

// childOf finds a child of ours by its command line.
func childOf(t *testing.T, name string) int {
	for pid, line := range kids(t) {
		if strings.HasPrefix(line, name) {
			return pid
		}
	}
	return 0
}

func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	bothKinds(t, func(t *testing.T, kept bool) {
		dir := t.TempDir()
		must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128k,mode=700"))
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		o := openOwner(t, custody.Options{Dir: dir})
		running := sleeper(o, kept)
		running.TempDirs = []string{"D"}
		must(t, running.Start())

		f, err := os.Create(filepath.Join(dir, ".fill"))
		must(t, err)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		f.Close()
		ran := filepath.Join(t.TempDir(), "ran")
		c := o.Command("touch", ran)
		c.Kept = kept
		if err := c.Start(); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("start on a full disk: %v", err)
		}
		if res, err := running.Launch().Stop(t.Context()); err != nil || res.Outcome != "gone" || len(res.Freed) != 1 {
			t.Errorf("stop on a full disk: %+v, %v", res, err)
		}
		running.Wait()
		if err := o.Close(); err != nil {
			t.Errorf("close on a full disk: %v", err)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Error("user code ran without a record")
		}
	})
}

func TestReadOnlyState(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	adopt(t)
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=700"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	pids := filepath.Join(t.TempDir(), "pids")
	t.Cleanup(func() { endTree(t, pids) })
	ord := order{Dir: dir, Alone: true, Pids: pids, Name: "n", End: "kill",
		Command: tree.Command("leader-dies", "-leader", "stay", "-n", "2", "-ignore", "TERM", "-pids", pids, "-life", "60s")}
	expectKilled(t, "owner", play(t, "owner", ord).Run())
	until(t, "nothing is open for writing", func() bool {
		return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "") == nil
	})
	if o, err := custody.Open(t.Context(), "test", &custody.Options{Dir: dir, WithoutSweep: true}); !errors.Is(err, unix.EROFS) {
		t.Errorf("open: %v, %v", o, err)
	}
	if n := len(alive(t, pids)); n != 3 {
		t.Fatalf("%d processes", n)
	}
	// Two stops: what is left is a record that can't be removed.
	for range 2 {
		res, err := custody.Stop(t.Context(), "n", custody.StopOptions{Dir: dir})
		if !errors.Is(err, custody.ErrIncomplete) || len(res.Survivors) > 0 || !strings.Contains(res.Reason, "read-only") {
			t.Errorf("stop: %+v, %v", res, err)
		}
		if left := alive(t, pids); len(left) > 0 {
			t.Errorf("processes left: %v", left)
		}
	}
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	rep, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
	if err != nil || len(rep.Launches) != 1 || rep.Launches[0].Outcome != "gone" {
		t.Errorf("sweep: %+v, %v", rep, err)
	}
	until(t, "orphans are collected", func() bool { return len(orphans(t)) == 0 })
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	dir := stateDir(t)
	use := func() {
		o := openOwner(t, custody.Options{Dir: dir})
		for _, kept := range []bool{false, true} {
			c := sleeper(o, kept) // stopped by Close
			c.TempDirs = []string{"D"}
			must(t, c.Start())
			c = o.Command("sh", "-c", "echo x; exit 3") // ended by itself
			c.Kept = kept
			if _, err := c.Output(); err == nil {
				t.Error("no exit status")
			}
			c = o.Command("/no/such/program")
			c.Kept = kept
			if c.Start() == nil {
				t.Error("started what is not there")
			}
			ctx, cancel := context.WithCancel(t.Context())
			c = o.CommandContext(ctx, "sleep", "60")
			c.Kept = kept
			must(t, c.Start())
			cancel()
			if err := c.Wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("canceled: %v", err)
			}
			c = o.Command("sleep", "60") // nobody waits
			c.Kept, c.Stdout = kept, &strings.Builder{}
			must(t, c.Start())
			go c.Wait()
		}
		must(t, o.Close())
		must(t, o.Close())
		if err := o.Command("true").Start(); !errors.Is(err, custody.ErrClosed) {
			t.Errorf("start after close: %v", err)
		}
	}
	use() // what the runtime opens once
	before := countFiles(t)
	ignore := goleak.IgnoreCurrent()
	use()
	if err := goleak.Find(ignore); err != nil {
		t.Error(err)
	}
	if after := countFiles(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	left, err := filepath.Glob(filepath.Join(dir, "test", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for pid, line := range kids(t) {
		if strings.HasPrefix(line, "custody-") {
			t.Errorf("helper %d is left: %s", pid, line)
		}
	}
}

func countFiles(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(d)
}

func TestEvents(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		var mu sync.Mutex
		var got []custody.Event
		o := openOwner(t, custody.Options{Dir: stateDir(t), OnEvent: func(e custody.Event) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, e)
		}})
		c := sleeper(o, kept)
		c.Name = "n"
		must(t, c.Start())
		_, err := c.Launch().Stop(t.Context())
		must(t, err)
		c.Wait()
		must(t, o.Close())
		mu.Lock()
		defer mu.Unlock()
		count := map[custody.EventKind]int{}
		for _, e := range got {
			count[e.Kind]++
			if e.Time.IsZero() || e.Launch != c.Launch().ID() || e.Name != "n" || e.String() == "" {
				t.Errorf("%+v", e)
			}
			if e.Kind == custody.SignalSent && (e.Signal != "TERM" || e.PID != c.Process.Pid || e.Proof.Verdict != custody.Owned || len(e.Proof.Evidence) == 0) {
				t.Errorf("%+v", e)
			}
		}
		for _, k := range []custody.EventKind{custody.LaunchStarted, custody.SignalSent, custody.LeaderExited, custody.LaunchGone} {
			if count[k] != 1 {
				t.Errorf("%d events %s: %v", count[k], k, got)
			}
		}
	})
}
