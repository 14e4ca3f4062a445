package container_test

// After a death: what an owner left is found, by id or by label, and ended or
// left alone, whoever comes.

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/container"
)

// The owner is killed, and nobody watched: the next sweep ends its container.
func TestSweepAfterDeath(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		w := play(t, order{Dir: dir, Alone: true, Spec: s.spec("wait")})
		l := find(t, dir, w.id)
		ready(t, l)
		if rep := sweep(t, dir); rep.LiveOwners != 1 || len(rep.Launches) > 0 {
			t.Errorf("while it lived: %+v", rep)
		}
		w.kill()
		if st := s.state(t, l.ContainerID()); st != "running" {
			t.Fatalf("after its owner's death it is %q", st)
		}
		dry, err := custody.Sweep(context.Background(), custody.SweepOptions{Dir: dir, DryRun: true})
		must(t, err)
		if len(dry.Launches) != 1 || dry.Launches[0].Outcome != "would-stop" || s.state(t, l.ContainerID()) != "running" {
			t.Errorf("dry run: %+v", dry)
		}
		rep := sweep(t, dir)
		if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "gone" || !slices.Equal(sent(rep.Launches[0]), []string{"TERM"}) {
			t.Errorf("sweep: %+v", rep)
		}
		s.nothing(t, dir, w.id)
	})
}

// nothing checks that nothing is left of a launch.
func (s *server) nothing(t *testing.T, dir, id string) {
	t.Helper()
	if ids := s.labelled(t, "custody.launch="+id); len(ids) > 0 {
		t.Errorf("containers %v are left", ids)
	}
	if r := records(t, dir); len(r) > 0 {
		t.Errorf("records %v are left", r)
	}
}

// Where the owner has a helper, its watchdog does it at once: it is the same
// program, and so has the engine client.
func TestWatchdogEnds(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		w := play(t, order{Dir: dir, Spec: s.spec("wait")})
		l := find(t, dir, w.id)
		ready(t, l)
		w.kill()
		until(t, "the watchdog has ended it", func() bool { return s.state(t, l.ContainerID()) == "" && len(records(t, dir)) == 0 })
		until(t, "the owner's directory is gone", func() bool {
			owners, err := filepath.Glob(filepath.Join(dir, "test", "*", "owner.json"))
			return err == nil && len(owners) == 0
		})
	})
}

// A container that is to survive is left alone by every sweep, and how it ended
// is known to who comes later.
func TestSurvivesAndIsFound(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		spec := s.spec("exit", "7", "3000")
		spec.Name, spec.OnOwnerDeath = "model", custody.Survive
		w := play(t, order{Dir: dir, Spec: spec})
		w.kill()
		rep := sweep(t, dir)
		if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "survives" {
			t.Errorf("sweep: %+v", rep)
		}
		l := find(t, dir, "model")
		if l.id != w.id {
			t.Errorf("found %s, want %s", l.id, w.id)
		}
		exit, err := l.Exit(context.Background())
		if err != nil || exit != (custody.Exit{Code: 7}) {
			t.Errorf("wait: %+v, %v", exit, err)
		}
		for _, when := range []string{"before", "after"} {
			st, err := l.Status(context.Background())
			if err != nil || st.State != custody.StateExited || st.Exit == nil || *st.Exit != exit {
				t.Errorf("status %s it is removed: %+v, %v", when, st, err)
			}
			rep := sweep(t, dir)
			if want := map[string]string{"before": "gone", "after": "ended"}[when]; len(rep.Launches) != 1 || rep.Launches[0].Outcome != want {
				t.Errorf("sweep %s it is removed: %+v", when, rep)
			}
		}
		if ids := s.labelled(t, "custody.launch="+w.id); len(ids) > 0 {
			t.Errorf("containers %v are left", ids)
		}
	})
}

// A container that survived is taken over by exactly one owner, and its end is
// that owner's to hear of.
func TestAdopt(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		spec := s.spec("exit", "7", "4000")
		spec.Name, spec.OnOwnerDeath = "taken-over", custody.Survive
		w := play(t, order{Dir: dir, Alone: true, Spec: spec})
		a, b := open(t, dir), open(t, dir)
		var taken *custody.TakenError
		if _, err := container.Adopt(context.Background(), a, "taken-over"); !errors.As(err, &taken) || taken.PID != w.cmd.Process.Pid {
			t.Errorf("adopt from a living owner: %v", err)
		}
		w.kill()
		l, err := container.Adopt(context.Background(), a, "taken-over")
		must(t, err)
		if _, err := container.Adopt(context.Background(), b, "taken-over"); !errors.As(err, &taken) {
			t.Errorf("a second one: %v", err)
		}
		x, err := l.Exit(context.Background())
		if err != nil || x != (custody.Exit{Code: 7}) {
			t.Errorf("exit: %+v, %v", x, err)
		}
		state, err := l.Wait(context.Background())
		if state == nil || state.ExitCode() != 7 {
			t.Errorf("wait: %v, %v", state, err)
		}
		res, err := l.Stop(context.Background())
		if err != nil || !slices.Equal(res.Freed, []string{"container taken-over"}) {
			t.Errorf("stop: %+v, %v", res, err)
		}
		if st := s.state(t, l.ContainerID()); st != "" {
			t.Errorf("it is %q", st)
		}
	})
}

// The engine makes the container, and its answer is lost.
func TestAnswerLost(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		for _, call := range []string{"/containers/create", "/start"} {
			b := stand(t, s)
			dir := filepath.Join(t.TempDir(), "state")
			o := open(t, dir)
			spec := s.spec("wait")
			spec.Endpoint, spec.Labels = b.endpoint, map[string]string{"lost": "yes"}
			spec.Phases = []custody.Phase{{Signal: 9, Wait: 10 * time.Second}}
			b.lose = call
			l, err := container.Start(context.Background(), o, spec)
			if err == nil || b.lost != 1 {
				t.Fatalf("%s: start: %v, %v; %d answers were lost", call, l, err, b.lost)
			}
			if ids := s.labelled(t, "lost=yes"); len(ids) > 0 {
				t.Errorf("%s: containers %v are left after %v", call, ids, err)
			}
			if r := records(t, dir); len(r) > 0 {
				t.Errorf("%s: records %v are left", call, r)
			}
		}
	})
}

// The engine makes the container only when its asker is dead and a sweep has
// come: the sweep waits for it.
func TestLateAnswer(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		b := stand(t, s)
		b.late = 2 * time.Second
		dir := filepath.Join(t.TempDir(), "state")
		spec := s.spec("wait")
		spec.Endpoint, spec.Labels = b.endpoint, map[string]string{"late": "yes"}
		w, _ := begin(t, order{Dir: dir, Alone: true, Spec: spec})
		<-b.asked
		w.kill()
		rep := sweep(t, dir)
		select {
		case err := <-b.done:
			must(t, err)
		default:
			t.Error("the sweep did not wait")
			must(t, <-b.done)
		}
		if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "gone" {
			t.Errorf("sweep: %+v", rep)
		}
		if ids := s.labelled(t, "late=yes"); len(ids) > 0 || len(records(t, dir)) > 0 {
			t.Errorf("containers %v and records %v are left", ids, records(t, dir))
		}
	})
}

// rewrite changes the only record.
func rewrite(t *testing.T, dir string, change func(c map[string]any)) {
	t.Helper()
	r := records(t, dir)
	if len(r) != 1 {
		t.Fatalf("records: %v", r)
	}
	b, err := os.ReadFile(r[0])
	must(t, err)
	var rec map[string]any
	must(t, json.Unmarshal(b, &rec))
	change(rec["container"].(map[string]any))
	b, err = json.Marshal(rec)
	must(t, err)
	must(t, os.WriteFile(r[0], b, 0o600))
}

// A record that names a stranger's container proves nothing.
func TestStrangersID(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		for what, labels := range map[string]map[string]string{"no label": nil, "another's label": {"custody.launch": "0123456789abcdef0123456789abcdef"}} {
			dir := filepath.Join(t.TempDir(), "state")
			w := play(t, order{Dir: dir, Alone: true, Spec: s.spec("wait")})
			l := find(t, dir, w.id)
			w.kill()
			id := s.stranger(t, "", labels)
			rewrite(t, dir, func(c map[string]any) { c["id"] = id })
			rep := sweep(t, dir)
			if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "foreign" || rep.Launches[0].Verdict != custody.Foreign {
				t.Errorf("%s: sweep: %+v", what, rep)
			}
			if _, err := custody.Stop(context.Background(), w.id, custody.StopOptions{Dir: dir}); !errors.Is(err, custody.ErrIncomplete) {
				t.Errorf("%s: stop: %v", what, err)
			}
			if st := s.state(t, id); st != "running" || len(records(t, dir)) != 1 {
				t.Errorf("%s: the stranger is %q, records %v", what, st, records(t, dir))
			}
			// The true one is found again when the record is.
			rewrite(t, dir, func(c map[string]any) { c["id"] = l.ContainerID() })
			sweep(t, dir)
			s.nothing(t, dir, w.id)
		}
	})
}

// Another engine stands where the recorded one was: whatever it has is not ours.
func TestSwappedEngine(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		other := serve(t, map[string]string{"docker": "podman", "podman": "docker"}[s.name])
		b := stand(t, s)
		dir := filepath.Join(t.TempDir(), "state")
		spec := s.spec("wait")
		spec.Endpoint, spec.Name = b.endpoint, "swapped-"+s.name
		w := play(t, order{Dir: dir, Alone: true, Spec: spec})
		l := find(t, dir, w.id)
		ready(t, l)
		id := other.stranger(t, spec.Name, map[string]string{"custody.launch": w.id})
		st, err := l.Status(context.Background()) // over a connection that lasts
		if err != nil || st.State != custody.StateRunning {
			t.Errorf("before: %+v, %v", st, err)
		}
		b.turn(other)
		if st, err = l.Status(context.Background()); err != nil || st.State != custody.StateForeign {
			t.Errorf("another engine: %+v, %v", st, err)
		}
		w.kill()
		rep := sweep(t, dir)
		if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "foreign" || !strings.Contains(rep.Launches[0].Reason, "another engine") {
			t.Errorf("sweep: %+v", rep)
		}
		if _, err := l.Stop(context.Background()); !errors.Is(err, custody.ErrIncomplete) {
			t.Errorf("stop: %v", err)
		}
		if _, err := l.Exit(context.Background()); err == nil || !strings.Contains(err.Error(), "another engine") {
			t.Errorf("wait: %v", err)
		}
		if st := other.state(t, id); st != "running" || s.state(t, l.ContainerID()) != "running" {
			t.Errorf("the other engine's is %q, ours %q", st, s.state(t, l.ContainerID()))
		}
		b.turn(s)
		sweep(t, dir)
		s.nothing(t, dir, w.id)
	})
}

// An engine that is down tells nothing: nothing is gone, and the record stays.
func TestEngineDown(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		b := stand(t, s)
		dir := filepath.Join(t.TempDir(), "state")
		spec := s.spec("wait")
		spec.Endpoint, spec.Name = b.endpoint, "down"
		w := play(t, order{Dir: dir, Alone: true, Spec: spec})
		l := find(t, dir, w.id)
		ready(t, l)
		w.kill()
		b.turn(nil)
		rep := sweep(t, dir)
		if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "incomplete" || rep.Launches[0].Verdict != custody.Unsure {
			t.Errorf("sweep: %+v", rep)
		}
		res, err := l.Stop(context.Background())
		if !errors.Is(err, custody.ErrIncomplete) || res.Verdict != custody.Unsure {
			t.Errorf("stop: %+v, %v", res, err)
		}
		if len(records(t, dir)) != 1 {
			t.Error("the record is gone")
		}
		o := open(t, dir)
		if _, err := container.Start(context.Background(), o, spec); err == nil {
			t.Error("a start under its name")
		}
		b.turn(s)
		// What could not be asked politely then is asked politely now.
		if rep = sweep(t, dir); len(rep.Launches) != 1 || !slices.Equal(sent(rep.Launches[0]), []string{"TERM"}) {
			t.Errorf("sweep once it is up: %+v", rep)
		}
		s.nothing(t, dir, w.id)
	})
}

// Somebody removed the container by hand: it is gone, and its record ends.
func TestRemovedByHand(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		for _, death := range []custody.OnOwnerDeath{custody.Kill, custody.Survive} {
			spec := s.spec("wait")
			spec.OnOwnerDeath = death
			w := play(t, order{Dir: dir, Alone: true, Spec: spec})
			l := find(t, dir, w.id)
			w.kill()
			_, err := s.cli.ContainerRemove(context.Background(), l.ContainerID(), client.ContainerRemoveOptions{Force: true})
			must(t, err)
			// A container of that name is none of ours, even if it is named
			// like the id.
			id := s.stranger(t, l.ContainerID(), map[string]string{"custody.launch": w.id})
			st, err := l.Status(context.Background())
			if err != nil || st.State != custody.StateGone {
				t.Errorf("status: %+v, %v", st, err)
			}
			rep := sweep(t, dir)
			if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "gone" {
				t.Errorf("sweep: %+v", rep)
			}
			if r := records(t, dir); len(r) > 0 && death == custody.Kill {
				t.Errorf("records %v are left", r)
			}
			if st := s.state(t, id); st != "running" {
				t.Errorf("the stranger is %q", st)
			}
		}
	})
}

// Two sweepers, and a third by hand: one of them ends it, all say so.
func TestTwoSweepers(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		w := play(t, order{Dir: dir, Alone: true, Spec: s.spec("wait")})
		l := find(t, dir, w.id)
		ready(t, l)
		w.kill()
		var wg sync.WaitGroup
		signals := make([]int, 3)
		for i := range signals {
			wg.Go(func() {
				if i == 2 {
					res, err := l.Stop(context.Background())
					if err != nil {
						t.Errorf("stop: %v", err)
					}
					signals[i] = len(res.Signals)
					return
				}
				rep, err := custody.Sweep(context.Background(), custody.SweepOptions{Dir: dir})
				if err != nil || len(rep.Incomplete()) > 0 || len(rep.SetAside) > 0 {
					t.Errorf("sweep: %+v, %v", rep, err)
				}
				for _, r := range rep.Launches {
					signals[i] += len(r.Signals)
				}
			})
		}
		wg.Wait()
		if n := signals[0] + signals[1] + signals[2]; n != 1 {
			t.Errorf("signals by each: %v", signals)
		}
		s.nothing(t, dir, w.id)
	})
}
