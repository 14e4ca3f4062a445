package custody_test

// A direct launch is watched or refused, and what is asked of the host once is
// not answered for life by one bad moment.

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/custody-project/custody"
)

func init() { roles["alone"] = playAlone }

func TestNoStartWithoutAWatchdog(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	path := filepath.Join(t.TempDir(), "helper")
	install := func() {
		from, err := os.Open(exe)
		must(t, err)
		defer from.Close()
		to, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY, 0o700)
		must(t, err)
		_, err = io.Copy(to, from)
		must(t, err)
		must(t, to.Close())
		must(t, os.Rename(path+".new", path))
	}
	install()
	var failed, replaced atomic.Int32
	o := openOwner(t, custody.Options{Dir: stateDir(t), Helper: path, OnEvent: func(e custody.Event) {
		switch e.Kind {
		case custody.WatchdogFailed:
			failed.Add(1)
		case custody.WatchdogReplaced:
			replaced.Add(1)
		}
	}})
	must(t, sleeper(o, false).Start())
	must(t, os.Remove(path))
	p, err := os.FindProcess(childOf(t, "custody-watchdog"))
	must(t, err)
	must(t, p.Kill())
	until(t, "it can't be replaced", func() bool { return failed.Load() > 0 })
	if err := sleeper(o, false).Start(); err == nil {
		t.Error("started, and nobody watches")
	}
	install()
	must(t, sleeper(o, false).Start())
	if n := len(o.Launches()); n != 2 {
		t.Errorf("%d launches", n)
	}
	dogs := 0
	for _, line := range kids(t) {
		if strings.HasPrefix(line, "custody-watchdog") {
			dogs++
		}
	}
	if dogs != 1 {
		t.Errorf("%d watchdogs", dogs)
	}
}

func playAlone(o order) {
	ow, err := custody.Open(context.Background(), "test", &custody.Options{Dir: o.Dir, WithoutHelper: true})
	if err != nil {
		fatal(err)
	}
	c := ow.Command("/bin/sleep", "60")
	if err := c.Start(); err != nil {
		fatal(err)
	}
	fmt.Print(c.Launch().Level())
	if err := ow.Close(); err != nil {
		fatal(err)
	}
}

// Without a helper nobody can try the cgroup out. It is not for that to be
// done without.
func TestCgroupWithoutHelper(t *testing.T) {
	want := custodyLevel(t)
	b, err := play(t, "alone", order{Dir: stateDir(t), Alone: true}).Output()
	if err != nil || custody.Level(b) != want {
		t.Errorf("level %s, %v, want %s", b, err, want)
	}
}
