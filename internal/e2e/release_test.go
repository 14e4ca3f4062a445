//go:build linux

// Work that is let go of on purpose.

package e2e

import (
	"testing"
	"time"
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
