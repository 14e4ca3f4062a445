package custody_test

// Plans that can't be carried out as written, and trees that hide.

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

// A phase that nobody could read back from the record is refused before
// anything is run; every signal there is can be written down.
func TestPhaseSignals(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	c := o.Command("sleep", "60")
	c.Phases = []custody.Phase{{Signal: syscall.Signal(99), Wait: time.Second}}
	if err := c.Start(); err == nil || !strings.Contains(err.Error(), "signal") {
		t.Errorf("signal 99: %v", err)
		c.Launch().Kill(t.Context())
	}
	for _, sig := range []syscall.Signal{syscall.SIGPWR, syscall.SIGSTKFLT, 34, 37, 64} {
		c := o.Command("sleep", "60")
		c.Phases = []custody.Phase{{Signal: sig, Wait: 10 * time.Second}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
		must(t, c.Start())
		if res, err := c.Launch().Stop(t.Context()); err != nil || res.Signals[0].Signal != custody.SignalName(sig) {
			t.Errorf("signal %d: %+v, %v", sig, res, err)
		}
		if p, err := custody.ParsePhase(custody.SignalName(sig) + ":1s"); err != nil || p.Signal != sig {
			t.Errorf("signal %d: name %s reads as %v, %v", sig, custody.SignalName(sig), p, err)
		}
	}
}

// An empty plan is the launch's own.
func TestStopWithNothing(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		o := openOwner(t, custody.Options{Dir: stateDir(t)})
		c := sleeper(o, kept)
		must(t, c.Start())
		if res, err := c.Launch().StopWith(t.Context(), nil); err != nil || res.Outcome != "gone" {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

// Kill makes a stop in progress a KILL at once, however patient its plan is
// and whoever carries it out.
func TestKillOvertakesStop(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		o := openOwner(t, custody.Options{Dir: stateDir(t)})
		ready := filepath.Join(t.TempDir(), "ready")
		c := o.Command("sh", "-c", `trap "" INT TERM; : >"$0"; while :; do sleep 0.1; done`, ready)
		c.Kept = kept
		c.Phases = []custody.Phase{{Signal: syscall.SIGINT, Wait: time.Hour}, {Signal: syscall.SIGTERM, Wait: time.Hour}}
		must(t, c.Start())
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(ready); err == nil {
				break
			}
		}
		l := c.Launch()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := l.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("stop: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		res, err := l.Kill(ctx)
		if err != nil || res.Outcome != "gone" {
			t.Fatalf("kill: %+v, %v", res, err)
		}
		for _, s := range res.Signals {
			if s.Signal == "TERM" {
				t.Errorf("TERM was sent after Kill was called: %+v", res.Signals)
			}
		}
	})
}

// A plan without KILL is carried out once, however often helpers try again.
func TestPlanWithoutKill(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		o := openOwner(t, custody.Options{Dir: stateDir(t)})
		dir := t.TempDir()
		log, ready := filepath.Join(dir, "log"), filepath.Join(dir, "ready")
		c := o.Command("sh", "-c", `trap 'echo INT >>"$0"' INT; : >"$1"; while :; do sleep 0.05; done`, log, ready)
		c.Kept = kept
		c.Phases = []custody.Phase{{Signal: syscall.SIGINT, Wait: 300 * time.Millisecond}}
		must(t, c.Start())
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(ready); err == nil {
				break
			}
		}
		for range 3 {
			if _, err := c.Launch().Stop(t.Context()); !errors.Is(err, custody.ErrIncomplete) {
				t.Errorf("stop: %v", err)
			}
		}
		if b, _ := os.ReadFile(log); string(b) != "INT\n" {
			t.Errorf("signals that arrived: %q, want one INT", b)
		}
		if _, err := c.Launch().Kill(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// hopper is a tree that forks, leaves its session and ends, a thousand times a
// second, for twenty seconds: no process of it lives long enough to be opened.
// It notes that it lives.
const hopper = `
import os, sys, time
end = time.time() + 10
if os.fork() == 0:
    while time.time() < end:
        os.setsid() if os.getpid() != os.getsid(0) else None
        if os.fork():
            os._exit(0)
        with open(sys.argv[1], "a") as f:
            f.write(".")
        time.sleep(0.001)
    os._exit(0)
time.sleep(20)
`

// What could not be seen is not gone: a stop either ends the tree, or says that
// it did not and keeps record and directory.
func TestHoppingTree(t *testing.T) {
	for _, kind := range []struct {
		name string
		kept bool
	}{{"direct", false}, {"kept", true}} {
		t.Run(kind.name, func(t *testing.T) {
			o := openOwner(t, custody.Options{Dir: stateDir(t)})
			note := filepath.Join(t.TempDir(), "note")
			c := o.Command("python3", "-c", hopper, note)
			c.Kept, c.TempDirs = kind.kept, []string{"D"}
			c.Phases = []custody.Phase{{Signal: syscall.SIGTERM, Wait: 300 * time.Millisecond}, {Signal: syscall.SIGKILL, Wait: 3 * time.Second}}
			must(t, c.Start())
			size := func() int64 {
				fi, err := os.Stat(note)
				if err != nil {
					return 0
				}
				return fi.Size()
			}
			for end := time.Now().Add(20 * time.Second); size() < 50 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			}
			res, err := c.Launch().Stop(t.Context())
			was := size()
			time.Sleep(500 * time.Millisecond)
			lives := size() != was
			_, gone := os.Stat(c.Launch().Dirs()[0])
			t.Logf("outcome %s, error %v, lives %v, directory %v", res.Outcome, err, lives, gone)
			if lives && (res.Outcome == "gone" || gone != nil) {
				t.Errorf("it lives, outcome %s (%s), directory: %v", res.Outcome, res.Reason, gone)
			}
			if kind.kept && lives {
				t.Error("a kept tree got away")
			}
		})
	}
}

// A launch that is stopped while it starts says so, and nothing of it runs.
func TestStoppedWhileItStarts(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		dir := stateDir(t)
		o := openOwner(t, custody.Options{Dir: dir})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
				custody.Stop(context.Background(), "web", custody.StopOptions{Dir: dir})
			}
		}()
		early := 0
		for loop := true; loop; {
			select {
			case <-done:
				loop = false
			default:
			}
			c := sleeper(o, kept)
			c.Name = "web"
			switch err := c.Start(); {
			case err == nil:
				c.Launch().Kill(t.Context())
			case errors.Is(err, custody.ErrStoppedEarly):
				early++
			case errors.Is(err, custody.ErrNameHeld):
			default:
				t.Errorf("start: %v", err)
			}
		}
		t.Logf("%d starts were stopped early", early)
	})
}
