package custody_test

// A start that fails takes back what it made, and nothing else; one that meets
// a full table of descriptors or a closing owner ends, and leaves nothing.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

func TestFailedStartKeepsTheUsersDirectory(t *testing.T) {
	kinds := map[string]func(c *custody.Cmd){
		"direct": func(*custody.Cmd) {},
		"kept":   func(c *custody.Cmd) { c.Kept = true },
	}
	for _, l := range custody.Doctor(custody.Options{Dir: stateDir(t)}).Levels {
		if l.Level == custody.LevelPIDNS && l.Available == custody.Yes {
			kinds["pidns"] = func(c *custody.Cmd) { c.Kept, c.Require = true, custody.LevelPIDNS }
		}
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			dir, own, other := stateDir(t), t.TempDir(), t.TempDir()
			must(t, os.WriteFile(filepath.Join(own, "content"), nil, 0o600))
			o := openOwner(t, custody.Options{Dir: dir})
			for what, c := range map[string]*custody.Cmd{
				"no program":   {Path: "/etc/passwd", Args: []string{"passwd"}},
				"marked twice": {Path: "/bin/true", Args: []string{"true"}, Spec: custody.Spec{OwnDirs: []string{other, other}}},
			} {
				f := o.Command("true")
				f.Path, f.Args, f.OwnDirs = c.Path, c.Args, append([]string{own}, c.OwnDirs...)
				kind(f)
				if err := f.Start(); err == nil {
					t.Fatalf("%s: started", what)
				}
				for _, p := range []string{filepath.Join(own, "content"), other} {
					if _, err := os.Stat(p); err != nil {
						t.Errorf("%s: the user's directory: %v", what, err)
					}
				}
				for _, p := range []string{own, other} {
					if _, err := os.Stat(filepath.Join(p, ".custody")); err == nil {
						t.Errorf("%s: %s is marked still", what, p)
					}
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "test", "*", "????????????????*.json")); len(left) > 0 {
					t.Errorf("%s: left: %v", what, left)
				}
			}
		})
	}
}

// Whoever starts while the owner closes is refused or stopped, and nobody
// waits for ever.
func TestStartWhileClosing(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		dir := stateDir(t)
		mark := fmt.Sprintf("60.%d", os.Getpid())
		for range 8 {
			o := openOwner(t, custody.Options{Dir: dir})
			var wg sync.WaitGroup
			var mu sync.Mutex
			var started []*custody.Launch
			for range 4 {
				wg.Go(func() {
					for {
						c := o.Command("sleep", mark)
						c.Kept, c.TempDirs = kept, []string{"D"}
						err := c.Start()
						if errors.Is(err, custody.ErrClosed) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						started = append(started, c.Launch())
						mu.Unlock()
						wg.Go(func() { c.Wait() })
					}
				})
			}
			until(t, "one was started", func() bool { return len(o.Launches()) > 1 })
			within(t, "Close", func() {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
			})
			within(t, "the starts", wg.Wait)
			for _, l := range started {
				select {
				case <-l.Gone():
				default:
					t.Errorf("launch %s is not gone", l.ID())
				}
			}
			if left := running("sleep " + mark + " "); len(left) > 0 {
				t.Fatalf("left running: %v", left)
			}
		}
	})
}

func TestCloseEndsTheWaitForAName(t *testing.T) {
	dir := stateDir(t)
	o, other := openOwner(t, custody.Options{Dir: dir}), openOwner(t, custody.Options{Dir: dir})
	holder := sleeper(other, false)
	holder.Name = "n"
	must(t, holder.Start())
	got := make(chan error, 1)
	go func() {
		c := sleeper(o, false)
		c.Name, c.WaitName = "n", true
		got <- c.Start()
	}()
	time.Sleep(100 * time.Millisecond)
	within(t, "Close", func() { o.Close() })
	within(t, "the start", func() {
		if err := <-got; !errors.Is(err, custody.ErrClosed) {
			t.Errorf("start: %v", err)
		}
	})
}

// within fails the test if f hangs.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// running lists the processes with this command line that have not ended.
func running(line string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, _ := os.ReadFile(f); strings.ReplaceAll(string(b), "\x00", " ") == line {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}
