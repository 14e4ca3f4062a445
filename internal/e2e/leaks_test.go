//go:build linux

// Leaks: after a crash, a restart, or a normal end.

package e2e

import (
	"testing"
	"time"
)

// The host is killed with SIGKILL while a wrapper sits in between: trees pile
// up under PID 1.
func TestC02_HostKilled(t *testing.T) {
	eachTrigger(t, levels, []trigger{ownerDied, bothSwept, bothOpened}, func(t *testing.T, r *rig, by trigger) {
		c := r.owner()
		a := c.start(spec{Args: r.prog("wrapper", "-depth", "2"), TempDirs: []string{"PROFILE"}})
		c.start(spec{Args: r.prog("setsid-escapee"), TempDirs: []string{"PROFILE"}})
		w := r.watch(5)
		w.alive("before")
		w.gone(a.pull(by), 5*time.Second)
		r.noTemp()
		a.recordEnded("at the end")
	})
}
