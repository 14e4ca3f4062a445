//go:build linux

// Directories: freed after the last member is proven gone, never before, and
// nothing but them.

package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// guarded watches over a directory: it is to be whole while a member lives.
type guarded struct {
	t     *testing.T
	w     *watch
	dir   string
	canon string
	stop  chan struct{}
	done  sync.WaitGroup
}

// guard puts a file into the directory and looks after it.
func guard(t *testing.T, w *watch, dir string) *guarded {
	t.Helper()
	g := &guarded{t: t, w: w, dir: dir, canon: filepath.Join(dir, "precious"), stop: make(chan struct{})}
	if err := os.WriteFile(g.canon, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.done.Go(func() {
		for {
			select {
			case <-g.stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			if _, err := os.Stat(g.canon); err != nil {
				// Whoever lives now lived when it was deleted.
				for _, h := range w.living() {
					t.Errorf("deleted while %s lives", h)
				}
				return
			}
		}
	})
	return g
}

// freed says that the directory went, once, and stays away.
func (g *guarded) freed() {
	g.t.Helper()
	outer := filepath.Dir(g.dir)
	until(g.t, "the directory is freed", func() bool { return missing(outer) })
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if !missing(outer) {
			g.t.Fatal("the directory came back")
		}
	}
	close(g.stop)
	g.done.Wait()
}

func missing(path string) bool { _, err := os.Lstat(path); return os.IsNotExist(err) }

// A sweep by age deletes the live browser's profile.
func TestC31_Age(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("profile", "-dir", "{PROFILE}"), TempDirs: []string{"PROFILE"}})
		w := r.watch(4)
		g := guard(t, w, l.Dirs[0])
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			age(filepath.Dir(g.dir), time.Hour)
			r.sweep()
		}
		second := r.owner()
		if rep := second.opened.Swept; len(rep.Launches) > 0 {
			t.Errorf("the second owner swept %+v", rep.Launches)
		}
		w.alive("after the sweeps")
		if missing(g.canon) {
			t.Error("the directory is not whole")
		}
		w.gone(l.pull(stopped), 5*time.Second)
		g.freed()
	})
}

// age sets the times of everything in a directory back.
func age(dir string, by time.Duration) {
	then := time.Now().Add(-by)
	filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		os.Chtimes(p, then, then) // may race with a writer
		return nil
	})
}

// Removal races with children that still write: "not empty", or the folder
// comes back; or it is never removed after an unclean end.
func TestC32_Writers(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		l := r.owner().start(spec{Args: r.prog("profile", "-dir", "{PROFILE}", "-linger", "1500ms"),
			TempDirs: []string{"PROFILE"}, Phases: []string{"TERM:2s", "KILL:5s"}})
		w := r.watch(4)
		g := guard(t, w, l.Dirs[0])
		w.gone(l.pull(by), 2*time.Second+5*time.Second)
		g.freed()
		l.recordEnded("at the end")
		r.noTemp()
	})
}

// A writer outlives the leader; links inside lead to what is not ours.
func TestOutlivesLeader(t *testing.T) {
	eachTrigger(t, levels, []trigger{"leader-exits", ownerDied, bothSwept, bothOpened}, func(t *testing.T, r *rig, by trigger) {
		outside := r.file("outside")
		own := r.file("own")
		for _, d := range []string{outside, own} {
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		kept := filepath.Join(outside, "kept")
		os.WriteFile(kept, []byte("x"), 0o600)
		how := "stay"
		if by == "leader-exits" {
			how = "exit"
		}
		l := r.owner().start(spec{Args: r.prog("profile", "-dir", "{PROFILE}", "-leader", how), TempDirs: []string{"PROFILE"}, OwnDirs: []string{own}, Linger: false})
		w := r.watch(4)
		g := guard(t, w, l.Dirs[0])
		for _, d := range []string{g.dir, own} {
			for name, to := range map[string]string{"dir": outside, "file": kept, "up": "../..", "root": "/"} {
				if err := os.Symlink(to, filepath.Join(d, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		since := time.Now()
		if by != "leader-exits" {
			since = l.pull(by)
		}
		w.gone(since, grace+5*time.Second)
		g.freed()
		l.recordEnded("at the end")
		if !missing(own) {
			t.Error("the directory taken into custody is left")
		}
		if b, err := os.ReadFile(kept); err != nil || string(b) != "x" {
			t.Errorf("a link was followed: %v", err)
		}
	})
}
