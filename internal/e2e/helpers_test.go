//go:build linux

// What becomes of a launch when one of custody's own helpers is hurt.

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A keeper that was stopped can't end its launch; a sweep does, and the keeper
// does not stay.
func TestHelpers_KeeperStopped(t *testing.T) {
	each(t, []level{lineage, cgroupKept, pidns}, func(t *testing.T, r *rig) {
		c := r.owner()
		sp := spec{Args: r.prog("sleep")}
		if r.lv.name == "pidns" {
			sp.Require = "pidns"
		}
		l := c.start(sp)
		r.watch(1)
		hs := helpersOf(t, c.proc.PID)
		for _, h := range hs {
			h.signal(syscall.SIGSTOP)
		}
		c.kill()
		l.sweptIn(r.sweep())
		l.recordEnded("after the sweep")
		for _, h := range hs {
			if !h.ends(20 * time.Second) {
				t.Errorf("%s stays", h)
			}
		}
	})
}

// A keeper that is killed while its owner lives takes its level with it: the
// tree is ended, and the leader's status is told all the same.
func TestHelpers_KeeperKilled(t *testing.T) {
	each(t, []level{lineage, cgroupKept}, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("mixed"), TempDirs: []string{"PROFILE"}})
		w := r.watch(8)
		since := time.Now()
		for _, h := range helpersOf(t, c.proc.PID) {
			h.signal(syscall.SIGKILL)
		}
		w.gone(since, grace+5*time.Second)
		if a := l.ask(request{Do: "wait"}); a.Signal != "TERM" && a.Signal != "KILL" {
			t.Errorf("wait: %+v", a)
		}
		l.recordEnded("at the end")
		r.noTemp()
	})
}

// Somebody else's limit on real-time CPU time stays; the launch does without
// the mark and is ended all the same.
func TestHelpers_LimitInUse(t *testing.T) {
	eachTrigger(t, []level{lineage, group}, []trigger{stopped, ownerDied, bothSwept}, func(t *testing.T, r *rig, by trigger) {
		c := r.ownerBy(opening{}, []string{"prlimit", "--rttime=5000000:9000000"}, nil)
		l := c.start(spec{Args: r.prog("setsid-escapee")})
		w := r.watch(2)
		out, err := exec.Command("prlimit", "--noheadings", "-o", "SOFT", "--rttime", "-p", itoa(w.role("leader").PID)).Output()
		if err != nil || string(out) != "5000000\n" {
			t.Errorf("limit of the leader: %q, %v", out, err)
		}
		since := l.pull(by)
		if r.lv.kept || by == stopped {
			w.gone(since, grace+5*time.Second)
			return
		}
		// At level group what left group and session with its parent dead is
		// out of sight: only the leader is promised.
		if !w.role("leader").ends(grace + 5*time.Second) {
			t.Errorf("the leader lives")
		}
	})
}

// A keeper that is stopped while it ends its launch holds the launch's lock:
// the next sweep continues it and shares its result.
func TestHelpers_KeeperStoppedAtWork(t *testing.T) {
	each(t, []level{lineage, cgroupKept}, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("term-ignore")})
		w := r.watch(3)
		hs := helpersOf(t, c.proc.PID)
		c.kill()
		until(t, "the keeper has begun", func() bool {
			b, err := os.ReadFile(l.record())
			return err == nil && strings.Contains(string(b), `"phases_sent"`)
		})
		for _, h := range hs {
			h.signal(syscall.SIGSTOP)
		}
		since := time.Now()
		r.sweep()
		w.gone(since, grace+10*time.Second)
		l.recordEnded("after the sweep")
		for _, h := range hs {
			if !h.ends(20 * time.Second) {
				t.Errorf("%s stays", h)
			}
		}
	})
}
