package custody_test

// A record that somebody deleted is no proof that its tree is gone.

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

func TestRecordDeletedUnderALiveLaunch(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		dir := stateDir(t)
		o := openOwner(t, custody.Options{Dir: dir})
		c := sleeper(o, kept)
		must(t, c.Start())
		files, _ := filepath.Glob(filepath.Join(dir, "test", "*", c.Launch().ID().String()+".json"))
		if len(files) != 1 {
			t.Fatal(files)
		}
		must(t, os.Remove(files[0]))
		ms, err := c.Launch().Members()
		if err != nil || len(ms) != 1 || ms[0].PID != c.Process.Pid {
			t.Errorf("members: %+v, %v", ms, err)
		}
		if err := c.Process.Kill(); err != nil {
			t.Errorf("kill: %v", err)
		}
		c.Wait()
		<-c.Launch().Gone()
		if err := c.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("kill of what is gone: %v", err)
		}
		if ms, err := c.Launch().Members(); len(ms) > 0 || err != nil {
			t.Errorf("members of what is gone: %+v, %v", ms, err)
		}
	})
}

func TestSurvivorOfAClosedOwner(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	c := sleeper(o, true)
	c.OnOwnerDeath = custody.Survive
	must(t, c.Start())
	began := time.Now()
	must(t, o.Close())
	if err := c.Wait(); !errors.Is(err, custody.ErrClosed) {
		t.Errorf("wait: %v", err)
	}
	if d := time.Since(began); d > 1500*time.Millisecond {
		t.Errorf("Close and Wait took %v", d)
	}
	_, err := custody.Stop(t.Context(), c.Launch().ID().String(), custody.StopOptions{Dir: dir})
	must(t, err)
}
