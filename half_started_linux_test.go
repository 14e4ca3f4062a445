package custody_test

// A launch that is to live on, and whose start has not come to its end: who
// waits for its name, or whose owner dies while its keeper writes it down.

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
)

// A name means who has it, not who waits for it; and who waits has not ended.
func TestWaitingForAName(t *testing.T) {
	dir := stateDir(t)
	at := custody.ListOptions{Dir: dir}
	o := openOwner(t, custody.Options{Dir: dir})
	first := sleeper(o, true)
	first.Name = "n"
	must(t, first.Start())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	second := o.CommandContext(ctx, "sleep", "60")
	second.Kept, second.Name, second.WaitName = true, "n", true
	done := make(chan error, 1)
	go func() { done <- second.Start() }()
	var waits custody.LaunchInfo
	until(t, "the second one waits", func() bool {
		l, err := custody.List(t.Context(), at)
		must(t, err)
		for _, i := range l.Launches {
			if i.ID != first.Launch().ID() {
				waits = i
			}
		}
		return len(l.Launches) == 2
	})
	if st, err := custody.StatusOf(t.Context(), "n", at); err != nil || st.ID != first.Launch().ID() || st.State != custody.StateRunning {
		t.Errorf("who has the name: %+v, %v", st, err)
	}
	st, err := custody.StatusOf(t.Context(), waits.ID.String(), at)
	if err != nil || st.State != custody.StateUnsure || st.Reason != "it has not started yet" || waits.State != "intent" {
		t.Errorf("who waits for it: %+v, %v; listed as %s", st, err, waits.State)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("second start: %v", err)
	}
	_, err = first.Launch().Stop(t.Context())
	must(t, err)
}

// halfStarted has a tree run whose keeper is slow to write it down, and whose
// owner is dead.
func halfStarted(t *testing.T, dir string, env ...string) (pids string) {
	t.Helper()
	adopt(t)
	pids = filepath.Join(t.TempDir(), "pids")
	t.Cleanup(func() {
		endTree(t, pids)
		until(t, "orphans are collected", func() bool { return len(orphans(t)) == 0 })
	})
	c := play(t, "owner", order{Dir: dir, Kept: true, Survive: true, Pids: pids, Name: "n", End: "kill",
		Command: tree.Command("leader-dies", "-leader", "stay", "-n", "2", "-pids", pids, "-life", "60s")},
		append(env, "CUSTODY_TEST_PAUSE=keeper/keeper-before-record=2s")...)
	must(t, c.Start())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := tree.Wait(ctx, pids, 3)
	must(t, err)
	must(t, c.Process.Kill())
	c.Wait()
	return pids
}

// The keeper goes on alone, and who waits meanwhile is not told that nothing
// began.
func TestKeeperRecordsAlone(t *testing.T) {
	dir := stateDir(t)
	halfStarted(t, dir)
	ended := make(chan error, 1)
	go func() {
		x, err := custody.Wait(context.Background(), "n", custody.ListOptions{Dir: dir})
		if err == nil && x.Signal != "TERM" {
			err = errors.New(x.String())
		}
		ended <- err
	}()
	until(t, "it is recorded", func() bool {
		st, err := custody.StatusOf(t.Context(), "n", custody.ListOptions{Dir: dir})
		must(t, err)
		return st.PID != 0
	})
	_, err := custody.Stop(t.Context(), "n", custody.StopOptions{Dir: dir})
	must(t, err)
	within(t, "Wait", func() { err = <-ended })
	must(t, err)
}

// If the keeper dies too, nobody can ever adopt it: it does not live on.
func TestBothDieBeforeTheRecord(t *testing.T) {
	dir := stateDir(t)
	reached := filepath.Join(t.TempDir(), "reached")
	pids := halfStarted(t, dir, "CUSTODY_TEST_CRASH=keeper/keeper-before-record:"+reached)
	rep, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
	if err != nil || !there(reached) && (len(rep.Launches) != 1 || rep.Launches[0].Outcome != "survives") {
		t.Errorf("sweep while the keeper lives: %+v, %v", rep, err)
	}
	until(t, "a sweep ends it", func() bool {
		_, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
		must(t, err)
		return len(alive(t, pids)) == 0
	})
	if !there(reached) {
		t.Error("it was ended while its keeper lived")
	}
	expectEmpty(t, filepath.Join(dir, "test"))
}
