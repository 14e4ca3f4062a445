//go:build linux

// Looks that fail: "could not ask" is never taken for "gone".

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/host"
)

// Any failure of the look-up was taken for "gone": the record was dropped, and
// a second copy started.
func TestC41_HiddenTable(t *testing.T) {
	needRoot(t)
	for name, hide := range map[string]string{
		"no-proc":       "mount -t tmpfs none /proc",
		"tree-hidden":   "mount -t tmpfs none /proc/$LEADER && mount -t tmpfs none /proc/$MEMBER",
		"leader-hidden": "mount -t tmpfs none /proc/$LEADER",
		"member-hidden": "mount -t tmpfs none /proc/$MEMBER",
	} {
		t.Run(name, func(t *testing.T) {
			each(t, levels, func(t *testing.T, r *rig) {
				l := r.owner().start(spec{Args: r.prog("leader-dies", "-leader", "stay", "-n", "1"), Name: "one", TempDirs: []string{"PROFILE"}})
				w := r.watch(2)
				l.c.killWithHelpers()
				out, code := r.below([]string{"unshare", "--mount", "sh", "-c",
					fmt.Sprintf(`LEADER=%d MEMBER=%d; %s && exec "$@"`, l.PID, w.role("member").PID, hide), "sh"}, "sweep", "--json")
				var rep custody.SweepReport
				json.Unmarshal([]byte(out), &rep) // may have said nothing at all
				if name == "leader-hidden" || name == "member-hidden" {
					// What is seen may be signalled, through the group that is
					// proven too; gone is said only of what is gone.
					if code == 0 && len(w.living()) > 0 {
						t.Errorf("called gone: %v: %s", w.living(), out)
					}
					if code == 0 {
						r.noTemp()
						return
					}
				} else {
					if code == 0 {
						t.Errorf("the sweep says all is well: %s", out)
					}
					w.alive("after the look failed")
				}
				for _, res := range rep.Launches {
					if res.Outcome == "gone" || len(res.Freed) > 0 {
						t.Errorf("sweep: %+v", res)
					}
				}
				l.recordKept("after the look failed")
				if missing(l.Dirs[0]) {
					t.Error("the directory is freed")
				}
				since := time.Now()
				l.sweptIn(r.sweep())
				w.gone(since, grace+5*time.Second)
				l.recordEnded("after the next look")
				r.noTemp()
			})
		})
	}
}

// Too many open files, at any point of the look.
func TestC41_NoDescriptors(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		l := r.owner().start(spec{Args: r.prog("leader-dies", "-leader", "stay", "-n", "1"), TempDirs: []string{"PROFILE"}})
		w := r.watch(2)
		l.c.killWithHelpers()
		failed := 0
		for n := 4; n < 40; n++ {
			out, code := r.below([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, n), "sh"}, "sweep", "--json")
			if code == 0 {
				break
			}
			failed++
			l.recordKept(fmt.Sprintf("with %d descriptors", n))
			if missing(l.Dirs[0]) {
				t.Fatalf("with %d descriptors the directory is freed: %s", n, out)
			}
			var rep custody.SweepReport
			json.Unmarshal([]byte(out), &rep)
			signalled := 0
			for _, res := range rep.Launches {
				signalled += len(res.Signalled)
			}
			if signalled == 0 {
				w.alive(fmt.Sprintf("with %d descriptors", n))
			}
			if t.Failed() {
				return
			}
		}
		if failed < 3 {
			t.Errorf("only %d sweeps failed", failed)
		}
		since := time.Now()
		r.sweep()
		w.gone(since, grace+5*time.Second)
		l.recordEnded("at the end")
		r.noTemp()
	})
}

// The same on the live handle.
func TestC41_NoDescriptorsLive(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		l := r.owner().start(spec{Args: r.prog("leader-dies", "-leader", "stay", "-n", "1"), TempDirs: []string{"PROFILE"}})
		w := r.watch(2)
		l.ask(request{Do: "limit", Times: 4})
		a := l.ask(request{Do: "stop"})
		if a.Err == "" {
			t.Errorf("stop without a look: %+v", a)
		}
		w.alive("after the failed stop")
		l.recordKept("after the failed stop")
		for _, e := range l.ask(request{Do: "events"}).Events {
			if e.Signal != "" {
				t.Errorf("signalled: %+v", e)
			}
		}
		l.ask(request{Do: "limit", Times: 1024})
		w.gone(l.pull(stopped), grace+5*time.Second)
		l.recordEnded("at the end")
		r.noTemp()
	})
}

// A sweep that does not see the cgroup file system: the launch's cgroup is not
// empty for that. Its leader is dead, so nothing else is recorded to live.
func TestC41_HiddenCgroup(t *testing.T) {
	needRoot(t)
	each(t, []level{cgroupDirect, cgroupKept}, func(t *testing.T, r *rig) {
		base, err := host.CgroupBase()
		if err != nil {
			t.Fatal(err)
		}
		l := r.owner().start(spec{Args: r.prog("double-fork", "-leader", "exit"), Linger: true, TempDirs: []string{"PROFILE"}})
		w := r.watch(3)
		l.ask(request{Do: "wait"})
		l.c.killWithHelpers()
		for _, args := range [][]string{{"sweep", "--json", "--dry-run"}, {"sweep", "--json"}} {
			out, _ := r.below([]string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs none "$0" && exec "$@"`, base}, args...)
			if len(w.living()) > 0 && (strings.Contains(out, `"gone"`) || strings.Contains(out, "would-free")) {
				t.Errorf("%v calls it gone: %s", args, out)
			}
		}
		l.recordKept("after the look failed")
		if missing(l.Dirs[0]) {
			t.Error("the directory is freed")
		}
		since := time.Now()
		l.sweptIn(r.sweep())
		w.gone(since, grace+5*time.Second)
		r.noTemp()
	})
}
