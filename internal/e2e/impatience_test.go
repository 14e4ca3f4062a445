//go:build linux

// A stop is under way when the owner dies.

package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The plan of a living owner is patient; once the owner is dead nobody waits
// for a goodbye any more, whoever carries the stop out.
func TestOwnerDiesDuringStop(t *testing.T) {
	for _, who := range []string{"keeper", "command"} {
		t.Run(who, func(t *testing.T) {
			each(t, []level{lineage, cgroupKept}, func(t *testing.T, r *rig) {
				c := r.owner()
				prog := r.prog("leader-dies", "-code", "0", "-after", "300ms", "-ignore", "TERM")
				if who == "command" {
					prog = r.prog("term-ignore")
				}
				sp := spec{Args: prog, DefaultPlan: true}
				l := c.start(sp)
				n := 4
				if who == "command" {
					n = 3
				}
				w := r.watch(n)
				if who == "command" {
					cmd := r.command("stop", l.id)
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { cmd.Wait() })
				}
				until(t, "TERM is sent", func() bool {
					b, err := os.ReadFile(l.record())
					return err == nil && strings.Contains(string(b), `"phases_sent": 1`)
				})
				since := time.Now()
				c.kill()
				w.gone(since, 6*time.Second) // the plan says ten
				l.recordEnded("at the end")
			})
		})
	}
}

// A keeper does not stay for a directory that can't be freed.
func TestKeeperLeavesAnUnfreeableDirectory(t *testing.T) {
	each(t, []level{lineage}, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("sleep"), TempDirs: []string{"PROFILE"}})
		w := r.watch(1)
		hs := helpersOf(t, c.proc.PID)
		outer := l.Dirs[0][:strings.LastIndex(l.Dirs[0], "/")]
		if err := os.Remove(outer + "/.custody"); err != nil {
			t.Fatal(err)
		}
		w.all[0].signal(syscall.SIGKILL)
		w.gone(time.Now(), 5*time.Second)
		for _, h := range hs {
			if !h.ends(20 * time.Second) {
				t.Errorf("%s stays", h)
			}
		}
		l.recordKept("with what could not be freed")
	})
}
