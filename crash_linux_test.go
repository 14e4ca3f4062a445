package custody_test

// Whoever it hits and wherever: a process of custody that is killed at any
// named step leaves nothing that the next sweep does not end, and nothing
// foreign is touched.

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
)

// steps says at which named step who can be killed: the owner while it starts,
// stops and closes; the watchdog or keeper of an owner that was killed; the
// sweeper of an owner that had no helper. A d is a direct launch, a k a kept
// one.
var steps = map[string][]string{
	"owner-new":     {"d/owner"},
	"owner-made":    {"d/owner"},
	"half-written":  {"d/owner", "k/keeper", "d/watchdog", "d/sweeper"},
	"before-intent": {"d/owner"},
	"after-intent":  {"d/owner", "k/owner"},
	"after-name":    {"d/owner", "k/owner"},
	"after-port":    {"d/owner", "k/owner"},
	"unmarked-dir":  {"d/owner", "k/owner"},
	"empty-marker":  {"d/owner"},
	"marked-dir":    {"d/owner"},
	"after-dir":     {"d/owner", "k/owner"},
	"after-cgroup":  {"d/owner"},
	"before-fork":   {"d/owner", "k/owner"},
	"after-fork":    {"d/owner"},
	"after-brand":   {"d/owner"},
	"after-record":  {"d/owner"},
	"after-keeper":  {"k/owner"},
	"after-start":   {"d/owner", "k/owner"},

	"keeper-before-note":   {"k/keeper"},
	"keeper-before-start":  {"k/keeper"},
	"keeper-before-record": {"k/keeper"},
	"keeper-before-report": {"k/keeper"},
	"keeper-woken":         {"k/keeper"},
	"keeper-leader-done":   {"k/keeper"},
	"watchdog-ready":       {"d/watchdog"},
	"watchdog-woken":       {"d/watchdog"},

	"sweep-locked":     {"d/watchdog", "d/sweeper"},
	"phase-begun":      {"d/owner", "k/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"phase-signalled":  {"d/owner", "k/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"phase-over":       {"d/owner", "k/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"stopped":          {"d/owner", "k/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"before-free":      {"d/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"half-free":        {"d/owner", "d/watchdog"},
	"unmarked":         {"d/owner", "k/keeper", "d/sweeper"},
	"after-free":       {"d/owner", "k/keeper", "d/sweeper"},
	"before-end":       {"d/owner", "k/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"after-end":        {"d/owner", "d/watchdog", "d/sweeper"},
	"hook-begun":       {"d/owner", "k/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"hook-forked":      {"d/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"hook-over":        {"d/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"hook-recorded":    {"d/owner", "d/watchdog", "k/keeper", "d/sweeper"},
	"before-owner-end": {"d/watchdog", "k/keeper", "d/sweeper"},
	"owner-old":        {"d/owner", "d/watchdog", "d/sweeper"},

	"move-named": {"s/adopter"},
	"move-moved": {"s/adopter"},
}

// elsewhere names the steps that their own package's tests kill at.
var elsewhere = map[string]string{
	"log-made": "internal/logfile", "log-counted": "internal/logfile", "log-dropped": "internal/logfile",
	"log-moved": "internal/logfile", "log-rotated": "internal/logfile",
}

// A step without a row is a step nobody is killed at.
func TestEveryStepHasARow(t *testing.T) {
	call := regexp.MustCompile(`crash\.Here\("([^"]+)"\)`)
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range call.FindAllStringSubmatch(string(b), -1) {
			if found[m[1]] {
				t.Errorf("%s: a second step named %s", path, m[1])
			}
			found[m[1]] = true
			if strings.HasPrefix(m[1], "container-") {
				continue // has its row, and an engine, in package container
			}
			if dir := elsewhere[m[1]]; dir != "" {
				tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
				must(t, err)
				if !slices.ContainsFunc(tests, func(f string) bool { b, _ := os.ReadFile(f); return strings.Contains(string(b), `"`+m[1]+`"`) }) {
					t.Errorf("%s: no test of %s kills at step %s", path, dir, m[1])
				}
			} else if len(steps[m[1]]) == 0 {
				t.Errorf("%s: step %s has no row", path, m[1])
			}
		}
		return err
	})
	must(t, err)
	for s := range elsewhere {
		if !found[s] {
			t.Errorf("no step %s is left in the source", s)
		}
	}
	for s := range steps {
		if !found[s] {
			t.Errorf("no step %s is left in the source", s)
		}
	}
}

func TestCrashPoints(t *testing.T) {
	adopt(t)
	dir := t.TempDir()
	pid, log := stranger(t, dir)
	var names []string
	for s := range steps {
		names = append(names, s)
	}
	slices.Sort(names)
	for _, step := range names {
		if step == "after-cgroup" && custodyLevel(t) != custody.LevelCgroup {
			continue // there is none to crash behind
		}
		for _, who := range steps[step] {
			if who == "s/adopter" {
				continue // TestCrashWhileAdopting
			}
			t.Run(step+"/"+who, func(t *testing.T) {
				kept, role, _ := strings.Cut(who, "/")
				crashAt(t, step, role, kept == "k", pid)
				untouched(t, pid, log)
			})
		}
	}
}

// custodyLevel is what a direct launch gets here.
func custodyLevel(t *testing.T) custody.Level {
	for _, l := range custody.Doctor(custody.Options{Dir: stateDir(t)}).Levels {
		if l.Level == custody.LevelCgroup && l.Available == 1 {
			return l.Level
		}
	}
	return custody.LevelGroup
}

// atStart are the steps at which a keeper dies under a living owner.
var atStart = []string{"keeper-before-note", "keeper-before-start", "keeper-before-record", "keeper-before-report", "half-written"}

// beforeLeader are the steps at which no record names a leader yet: nothing
// tells that the command ever used the user's own directory.
var beforeLeader = []string{"empty-marker", "marked-dir", "after-dir", "after-cgroup", "before-fork", "after-fork", "after-brand",
	"keeper-before-note", "keeper-before-start", "keeper-before-record"}

func crashAt(t *testing.T, step, role string, kept bool, strangerPID int) {
	base := stateDir(t)
	state, tmp, own := filepath.Join(base, "state"), filepath.Join(base, "tmp"), filepath.Join(base, "own", "dir")
	must(t, os.Mkdir(tmp, 0o700))
	must(t, os.MkdirAll(own, 0o700))
	must(t, os.WriteFile(filepath.Join(own, "content"), nil, 0o600))
	pids, reached := filepath.Join(base, "pids"), filepath.Join(base, "reached")
	o := order{Dir: state, Kept: kept, Pids: pids, OwnDir: own, Name: "lease", End: "stop", Alone: role == "sweeper",
		Command: tree.Command("leader-dies", "-leader", "stay", "-n", "2", "-ignore", "TERM", "-pids", pids, "-life", "60s")}
	if step == "after-port" {
		o.Port = freePort(t)
	}
	hooked := filepath.Join(base, "hooked")
	o.Hook = []string{"/bin/sh", "-c", "echo run >>" + hooked}
	if role != "owner" && !(role == "keeper" && slices.Contains(atStart, step)) {
		o.End = "kill"
	}
	if step == "keeper-leader-done" || step == "owner-old" && role == "owner" {
		o.End = "stop"
	}
	process := role
	if role == "sweeper" {
		process = "owner" // it has no role of its own
	}
	crash := "CUSTODY_TEST_CRASH=" + process + "/" + step + ":" + reached
	env := []string{"TMPDIR=" + tmp}
	if role != "sweeper" {
		env = append(env, crash)
	}
	t.Cleanup(func() { endTree(t, pids) })

	c := play(t, "owner", o, env...)
	err := c.Run()
	if o.End == "kill" || role == "owner" {
		expectKilled(t, "owner", err)
	} else if err != nil && role != "keeper" {
		t.Errorf("owner: %v", err)
	}
	if role == "sweeper" {
		expectKilled(t, "sweeper", play(t, "sweeper", o, append(env, crash)...).Run())
	}
	// The helpers do what they can, and go.
	until(t, "helpers are gone", func() bool {
		for _, line := range orphans(t, strangerPID) {
			if line == "" || strings.HasPrefix(line, "custody-") { // "": about to end
				return false
			}
		}
		return true
	})
	if b, err := os.ReadFile(reached); err != nil {
		t.Errorf("the step was not reached: %s %v", b, err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ageLitter(t, state)
	rep, err := custody.Sweep(ctx, custody.SweepOptions{Dir: state})
	if err != nil || len(rep.Incomplete()) > 0 || len(rep.SetAside) > 0 || rep.LiveOwners > 0 {
		t.Errorf("sweep: %+v, %v", rep, err)
	}
	if left := alive(t, pids); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	expectHook(t, step, hooked, rep)
	expectEmpty(t, tmp)
	begun := !slices.Contains([]string{"owner-new", "owner-made", "before-intent", "after-intent", "after-name", "after-port", "unmarked-dir"}, step)
	if step == "half-written" && role == "owner" {
		begun = false
	}
	_, err = os.Stat(filepath.Join(own, "content"))
	if taken := errors.Is(err, fs.ErrNotExist); taken && !begun {
		t.Errorf("the user's own directory was never taken, and is gone")
	} else if taken && slices.Contains(beforeLeader, step) {
		t.Errorf("the user's own directory is gone, and no leader was ever recorded")
	} else if !taken && begun && !slices.Contains(beforeLeader, step) && !slices.Contains(atStart, step) && step != "after-keeper" {
		t.Errorf("the user's directory was taken, and is left")
	}
	if _, err := os.Lstat(filepath.Join(own, ".custody")); err == nil {
		t.Error("a marker is left in the user's own directory")
	}
	expectEmpty(t, filepath.Join(state, "test"))
	until(t, "adopted orphans are collected", func() bool { return len(orphans(t, strangerPID)) == 0 })
}

// The owner dies while its keeper is about to start the leader, and a sweep
// comes in between: what the keeper starts must not be forgotten.
func TestSweepDuringKeptStart(t *testing.T) {
	adopt(t)
	for _, step := range []string{"keeper-before-note", "keeper-before-start", "keeper-before-record"} {
		t.Run(step, func(t *testing.T) {
			base := stateDir(t)
			state, pids := filepath.Join(base, "state"), filepath.Join(base, "pids")
			t.Cleanup(func() { endTree(t, pids) })
			o := order{Dir: state, Kept: true, Pids: pids,
				Command: tree.Command("leader-dies", "-leader", "stay", "-n", "2", "-pids", pids, "-life", "60s")}
			c := play(t, "owner", o, "CUSTODY_DEBUG_WITHOUT=cgroup", "CUSTODY_TEST_CRASH=owner/after-keeper", "CUSTODY_TEST_PAUSE=owner/after-keeper=300ms,keeper/"+step+"=1s")
			expectKilled(t, "owner", c.Run())
			for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); {
				rep, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: state})
				must(t, err)
				if len(rep.Incomplete())+len(rep.SetAside) > 0 {
					t.Errorf("%+v", rep)
				}
			}
			until(t, "the keeper is gone", func() bool {
				for _, line := range orphans(t) {
					if line == "" || strings.HasPrefix(line, "custody-") {
						return false
					}
				}
				return true
			})
			_, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: state})
			must(t, err)
			until(t, "nothing is left", func() bool { return len(orphans(t)) == 0 && len(alive(t, pids)) == 0 })
			expectEmpty(t, filepath.Join(state, "test"))
		})
	}
}

// expectHook expects the stop hook to have run once at most, and where that
// can't be told somebody to have been told.
func expectHook(t *testing.T, step, hooked string, rep custody.SweepReport) {
	t.Helper()
	b, _ := os.ReadFile(hooked)
	runs := strings.Count(string(b), "run")
	if runs > 1 {
		t.Errorf("the stop hook ran %d times", runs)
	}
	var told string
	for _, l := range rep.Launches {
		if l.StopHook != nil {
			told = l.StopHook.State
		}
	}
	switch step {
	case "hook-begun", "hook-forked", "hook-over":
		// A helper that found it may have ended the record before the sweep.
		if told != custody.StopHookUnknown && len(rep.Launches) > 0 {
			t.Errorf("the stop hook is %q, nobody can tell", told)
		}
		if step == "hook-begun" && runs != 0 {
			t.Error("it ran although its runner had died before")
		}
	case "hook-recorded":
		if runs != 1 || told != custody.StopHookDone && len(rep.Launches) > 0 {
			t.Errorf("the stop hook ran %d times and is %q", runs, told)
		}
	case "phase-begun", "phase-signalled", "phase-over", "stopped", "before-free", "half-free", "unmarked", "after-free", "before-end", "after-end":
		if runs != 1 {
			t.Errorf("the stop hook ran %d times", runs)
		}
	}
}

// ageLitter sets the time of an owner's directory in the making back, since a
// young one may still be finished.
func ageLitter(t *testing.T, state string) {
	then := time.Now().Add(-time.Hour)
	news, _ := filepath.Glob(filepath.Join(state, "test", ".new-*"))
	for _, p := range news {
		must(t, os.Chtimes(p, then, then))
	}
}

// expectEmpty expects no files below a directory but the lock of the names, and
// no directories but those of names and logs.
func expectEmpty(t *testing.T, dir string) {
	t.Helper()
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != dir && d.Name() != "names" && d.Name() != "logs" && d.Name() != ".lock" {
			t.Errorf("left: %s", path)
		}
		return nil
	})
}

func expectKilled(t *testing.T, who string, err error) {
	t.Helper()
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%s was not killed: %v", who, err)
	}
}
