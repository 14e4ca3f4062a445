//go:build linux

// Work that is let go of on purpose.

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

// A tree kill takes down work that was detached on purpose. Released, it is
// UNTOUCHED by stop, by its owner's death and by a sweep, and its record says
// so; it comes back only by a command that proves its identity.
func TestC09_Released(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("double-fork"), TempDirs: []string{"PROFILE"}})
		w := r.watch(3)
		if _, code := r.custody("release", l.id); code != 0 {
			t.Fatalf("release: exit %d", code)
		}
		state := func(want string) {
			t.Helper()
			if ls := r.ls(); len(ls) != 1 || ls[0].State != want {
				t.Errorf("record says %+v, want state %s", ls, want)
			}
		}
		if _, code := r.custody("stop", l.id); code == 0 {
			t.Errorf("stop of a released launch succeeded")
		}
		w.alive("after a stop", "leader", "daemon")
		state("released")
		c.kill()
		rep := r.sweep()
		if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "released" || len(rep.Launches[0].Signalled) > 0 {
			t.Errorf("sweep: %+v", rep.Launches)
		}
		time.Sleep(stays)
		w.alive("after the owner's death and a sweep", "leader", "daemon")
		state("released")

		if _, code := r.custody("adopt", l.id); code != 0 {
			t.Fatalf("adopt: exit %d", code)
		}
		state("running")
		since := time.Now()
		r.custody("stop", "--phase", "TERM:1s", "--phase", "KILL:5s", l.id)
		w.gone(since, grace+5*time.Second)
		l.recordEnded("after the stop")
		r.noTemp()
	})
}

// A released launch takes its directories along.
func TestC09_ReleasedDirectories(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("sleep"), TempDirs: []string{"PROFILE"}})
		w := r.watch(1)
		hs := helpersOf(t, c.proc.PID)
		if _, code := r.custody("release", l.id); code != 0 {
			t.Fatalf("release: exit %d", code)
		}
		w.all[0].signal(9)
		w.gone(time.Now(), 5*time.Second)
		c.kill()
		r.sweep()
		l.recordEnded("after a sweep")
		if missing(l.Dirs[0]) {
			t.Error("the directory of a released launch was deleted")
		}
		for _, h := range hs {
			if !h.ends(20 * time.Second) {
				t.Errorf("%s stays", h)
			}
		}
	})
}

// A released launch that has ended leaves no record behind.
func TestC09_ReleasedEnds(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("sleep")})
		w := r.watch(1)
		if _, code := r.custody("release", l.id); code != 0 {
			t.Fatalf("release: exit %d", code)
		}
		w.all[0].signal(9)
		w.gone(time.Now(), 5*time.Second)
		c.kill()
		r.sweep()
		l.recordEnded("after a sweep")
		if _, code := r.custody("adopt", l.id); code == 0 {
			t.Errorf("a launch that has ended was adopted")
		}
	})
}

// A record of a PID namespace that has ended can't be judged from outside, and
// would hold its name for good: it is forgotten on somebody's word, and only if
// nothing proven lives.
func TestForget(t *testing.T) {
	needRoot(t)
	t.Parallel()
	r := newRig(t, lineage)
	c := r.ownerBy(opening{}, []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}, nil)
	l := c.start(spec{Args: []string{"sleep", "60"}, Name: "web"})
	c.cmd.Process.Kill() // the namespace ends, and everything in it
	c.cmd.Wait()
	rep := r.sweep()
	for end := time.Now().Add(20 * time.Second); rep.LiveOwners > 0 && time.Now().Before(end); rep = r.sweep() {
		time.Sleep(20 * time.Millisecond) // its owner holds its lock until it has died
	}
	if len(rep.Launches) != 1 || rep.Launches[0].Verdict != custody.Foreign {
		t.Errorf("sweep: %+v", rep)
	}
	here := r.owner()
	if a := here.ask(request{Do: "start", Spec: spec{Args: []string{"sleep", "60"}, Name: "web"}}); !slices.Contains(a.Is, "name") || !strings.Contains(a.Err, "custody forget "+l.id[:8]) {
		t.Errorf("start under a held name: %+v", a)
	}
	if _, code := r.custody("forget", l.id); code != 0 {
		t.Fatalf("forget: exit %d", code)
	}
	mine := here.start(spec{Args: []string{"sleep", "60"}, Name: "web"})
	if _, code := r.custody("forget", mine.id); code == 0 {
		t.Error("a living launch was forgotten")
	}
	mine.recordKept("after a refused forget")
}
