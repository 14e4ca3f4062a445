package container_test

// Whoever is killed wherever while a container is started or ended: the next
// sweep leaves nothing of it.

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

// steps says what there is when a process dies at each named step: whether the
// engine has made the container by then. The last ones are a sweeper's.
var steps = map[string]struct{ made, sweeper bool }{
	"container-before-intent": {},
	"container-after-intent":  {},
	"container-after-name":    {},
	"container-before-create": {},
	"container-after-create":  {made: true},
	"container-after-record":  {made: true},
	"container-after-begin":   {made: true},
	"container-after-start":   {made: true},

	"container-phase-begun":     {made: true, sweeper: true},
	"container-phase-signalled": {made: true, sweeper: true},
	"container-phase-over":      {made: true, sweeper: true},
	"container-before-remove":   {made: true, sweeper: true},
	"container-after-remove":    {sweeper: true},
}

func TestEveryStepHasARow(t *testing.T) {
	call := regexp.MustCompile(`crash\.Here\("(container-[^"]+)"\)`)
	found := map[string]bool{}
	must(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range call.FindAllStringSubmatch(string(b), -1) {
			found[m[1]] = true
			if _, ok := steps[m[1]]; !ok {
				t.Errorf("%s: step %s has no row", path, m[1])
			}
		}
		return err
	}))
	for s := range steps {
		if !found[s] {
			t.Errorf("no step %s is left in the source", s)
		}
	}
}

func TestCrashPoints(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		for step := range steps {
			for _, death := range []custody.OnOwnerDeath{custody.Kill, custody.Survive} {
				if death == custody.Survive && steps[step].sweeper {
					continue // no sweep ends one that is to survive
				}
				t.Run(step+"/"+string(death), func(t *testing.T) {
					t.Parallel()
					s.crashAt(t, step, death)
				})
			}
		}
	})
}

func (s *server) crashAt(t *testing.T, step string, death custody.OnOwnerDeath) {
	row := steps[step]
	dir := filepath.Join(t.TempDir(), "state")
	reached := filepath.Join(t.TempDir(), "reached")
	there := "CUSTODY_TEST_CRASH=owner/" + step + ":" + reached
	spec := s.spec("deaf")
	spec.Name, spec.OnOwnerDeath = step+"-"+string(death), death
	spec.Labels = map[string]string{"step": spec.Name}
	spec.DeathPhases = []custody.Phase{{Signal: 15, Wait: 300 * time.Millisecond}, {Signal: 9, Wait: 20 * time.Second}}
	if row.sweeper {
		play(t, order{Dir: dir, Alone: true, Spec: spec}).kill()
		play(t, order{Dir: dir, Alone: true, Sweep: true}, there).cmd.Wait()
	} else {
		play(t, order{Dir: dir, Alone: true, Spec: spec}, there).cmd.Wait()
	}
	if b, err := os.ReadFile(reached); err != nil {
		t.Fatalf("nobody died there: %q, %v", b, err)
	}
	if n := len(s.labelled(t, "step="+spec.Name)); (n == 1) != row.made {
		t.Errorf("%d containers before the sweep", n)
	}
	rep := sweep(t, dir)
	if death == custody.Survive && (step == "container-after-begin" || step == "container-after-start") {
		// It runs, and is to live on.
		if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "survives" {
			t.Errorf("sweep: %+v", rep)
		}
		// Whoever comes next finds it by its name and goes on with it.
		_, err := custody.Adopt(context.Background(), spec.Name, custody.AdoptOptions{Dir: dir, PID: os.Getpid()})
		if err != nil {
			t.Error(err)
		}
		if st, err := custody.StatusOf(context.Background(), spec.Name, custody.ListOptions{Dir: dir}); err != nil || st.State != custody.StateRunning || st.Owner.PID != os.Getpid() {
			t.Errorf("status: %+v, %v", st, err)
		}
		_, err = custody.Stop(context.Background(), spec.Name, custody.StopOptions{Dir: dir, Phases: spec.DeathPhases})
		must(t, err)
	} else if len(rep.Incomplete()) > 0 {
		t.Errorf("sweep: %+v", rep)
	}
	if ids := s.labelled(t, "step="+spec.Name); len(ids) > 0 {
		t.Errorf("containers %v are left after %+v", ids, rep)
	}
	if r := records(t, dir); len(r) > 0 && death == custody.Kill {
		t.Errorf("records %v are left", r)
	}
}

// One that its owner is about to start has neither ended nor gone.
func TestStatusWhileItStarts(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		spec := s.spec("deaf")
		spec.Name, spec.OnOwnerDeath = "starting", custody.Kill
		w, _ := begin(t, order{Dir: dir, Alone: true, Spec: spec}, "CUSTODY_TEST_PAUSE=owner/container-after-record=3s")
		var st custody.Status
		for end := time.Now().Add(30 * time.Second); st.Container == nil || st.Container.ID == ""; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never made: %+v", st)
			}
			st, _ = custody.StatusOf(context.Background(), "starting", custody.ListOptions{Dir: dir})
		}
		if st.State != custody.StateUnsure || !strings.HasPrefix(st.Reason, "it has not started yet") {
			t.Errorf("%+v", st)
		}
		w.kill()
		if rep := sweep(t, dir); len(rep.Incomplete()) > 0 {
			t.Errorf("sweep: %+v", rep)
		}
	})
}
