package custody_test

// What is kept of a launch that outlived its owner and has ended: how it ended,
// for a day, and nothing else.

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

// hasEnded makes a launch that survives and has ended, with a log.
func hasEnded(t *testing.T, o *custody.Owner, dir, name string) (id, log string) {
	t.Helper()
	c := o.Command("sh", "-c", "exit 7")
	c.Kept, c.OnOwnerDeath, c.Name = true, custody.Survive, name
	must(t, c.Start())
	c.Wait()
	within(t, "Gone", func() { <-c.Launch().Gone() })
	id = c.Launch().ID().String()
	log = filepath.Join(dir, "test", "logs", id+".log")
	must(t, os.MkdirAll(filepath.Dir(log), 0o700))
	must(t, os.WriteFile(log, []byte("x"), 0o600))
	return id, log
}

// age sets the end of a launch back.
func age(t *testing.T, dir, id string, by time.Duration) {
	t.Helper()
	file := recordFiles(t, dir, id)[0]
	then := time.Now().Add(-by)
	edit(t, file, func(r map[string]any) { r["ended_at"] = then.UTC() })
	must(t, os.Chtimes(file, then, then))
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// The record of a launch that has ended is kept for a day, with its log, and
// then goes: from a dead owner's directory, and from a living one's.
func TestEndedIsKeptForADay(t *testing.T) {
	for _, alive := range []bool{false, true} {
		dir := stateDir(t)
		o := openOwner(t, custody.Options{Dir: dir})
		old, oldLog := hasEnded(t, o, dir, "n")
		young, youngLog := hasEnded(t, o, dir, "n") // the name was free at once
		if !alive {
			must(t, o.Close())
		}
		age(t, dir, old, 25*time.Hour)
		age(t, dir, young, 23*time.Hour)
		rep, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir, DryRun: true})
		if err != nil || len(recordFiles(t, dir, old)) != 1 {
			t.Errorf("alive %v: dry run: %+v, %v", alive, rep, err)
		}
		rep, err = custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
		must(t, err)
		if len(rep.Incomplete())+len(rep.SetAside) > 0 {
			t.Errorf("alive %v: %+v", alive, rep)
		}
		if n := len(recordFiles(t, dir, old)); n != 0 || there(oldLog) {
			t.Errorf("alive %v: the old one is kept: %d records, log %v", alive, n, there(oldLog))
		}
		if n := len(recordFiles(t, dir, young)); n != 1 || !there(youngLog) {
			t.Errorf("alive %v: the young one is not kept: %d records, log %v", alive, n, there(youngLog))
		}
		st, err := custody.StatusOf(t.Context(), "n", custody.ListOptions{Dir: dir})
		if err != nil || st.ID.String() != young || st.State != custody.StateExited || st.Exit.Code != 7 {
			t.Errorf("alive %v: %+v, %v", alive, st, err)
		}
		if alive {
			must(t, o.Close())
		}
		age(t, dir, young, 25*time.Hour)
		_, err = custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
		must(t, err)
		expectEmpty(t, filepath.Join(dir, "test"))
	}
}

// Of two that ended under one name the later one is meant. Forgetting one takes
// its log, and at last its owner's directory, at once.
func TestForgetEnded(t *testing.T) {
	dir := stateDir(t)
	lopt := custody.ListOptions{Dir: dir}
	o := openOwner(t, custody.Options{Dir: dir})
	first, firstLog := hasEnded(t, o, dir, "n")
	second, secondLog := hasEnded(t, o, dir, "n")
	must(t, o.Close())
	for _, id := range []string{second, first} {
		res, err := custody.Stop(t.Context(), "n", custody.StopOptions{Dir: dir})
		if err != nil || res.ID.String() != id || res.Outcome != "gone" || len(res.Signalled) > 0 {
			t.Errorf("stop of an ended one: %+v, %v", res, err)
		}
		got, err := custody.Forget(t.Context(), "n", lopt)
		if err != nil || got.String() != id {
			t.Errorf("forgot %s, %v, want %s", got, err, id)
		}
	}
	if there(firstLog) || there(secondLog) {
		t.Error("a log is left")
	}
	if _, err := custody.StatusOf(t.Context(), first, lopt); !errors.Is(err, custody.ErrNotFound) {
		t.Errorf("status: %v", err)
	}
	expectEmpty(t, filepath.Join(dir, "test"))
}

// A living launch's name means that one; an id is never a guess.
func TestNamedLikeAnEndedOne(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	id, _ := hasEnded(t, o, dir, "")
	c := sleeper(o, true)
	c.Name = id[:6] // a name that looks like the start of an id
	must(t, c.Start())
	_, err := custody.Stop(t.Context(), id[:6], custody.StopOptions{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "2 launches match") {
		t.Errorf("stop: %v", err)
	}
	if n := len(o.Launches()); n != 1 {
		t.Errorf("%d launches", n)
	}
	must(t, o.Close())
	c.Wait()
}

// The directory of a process that owned a launch, and died, does not stay.
func TestDeadProcessOwnsNothing(t *testing.T) {
	dir := stateDir(t)
	pids, id := outlived(t, dir)
	pid, _ := stranger(t, t.TempDir())
	_, err := custody.Adopt(t.Context(), id, custody.AdoptOptions{Dir: dir, PID: pid})
	must(t, err)
	if dirs := ownerDirs(t, dir); len(dirs) != 1 {
		t.Errorf("owners: %v", dirs)
	}
	stopped(t, dir, id, pids)
	age(t, dir, id, 25*time.Hour)
	rep, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
	if err != nil || rep.LiveOwners != 1 || len(recordFiles(t, dir, id)) != 0 {
		t.Errorf("sweep: %+v, %v, records %v", rep, err, recordFiles(t, dir, id))
	}
	p, err := os.FindProcess(pid)
	must(t, err)
	must(t, p.Kill())
	p.Wait()
	_, err = custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
	must(t, err)
	expectEmpty(t, filepath.Join(dir, "test"))
	if _, err := custody.Adopt(t.Context(), "n", custody.AdoptOptions{Dir: dir, PID: pid}); err == nil {
		t.Error("adopted on behalf of a dead process")
	}
}

// There is nothing to hand out of a launch that has ended, and how it ended is
// not given away for it.
func TestEndedIsNotReleased(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	id, _ := hasEnded(t, o, dir, "n")
	must(t, o.Close())
	if _, err := custody.Release(t.Context(), "n", custody.ListOptions{Dir: dir}); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("released: %v", err)
	}
	st, err := custody.StatusOf(t.Context(), id, custody.ListOptions{Dir: dir})
	if err != nil || st.State != custody.StateExited || st.Exit == nil || st.Exit.Code != 7 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A name that several have had means the last of them, whichever is met first.
func TestExplainEnded(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	last := ""
	for range 5 {
		last, _ = hasEnded(t, o, dir, "n")
	}
	must(t, o.Close())
	xs, err := custody.Explain(t.Context(), "n", custody.ListOptions{Dir: dir})
	if err != nil || len(xs) != 1 || xs[0].Launch.String() != last || xs[0].Verdict != custody.Gone {
		t.Errorf("%+v, %v, want launch %s, gone", xs, err, last)
	}
}
