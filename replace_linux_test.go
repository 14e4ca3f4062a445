package custody_test

// A start that replaces the launch under its name: first gone, then started.

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

// The one replaced is gone, its record and its ports are free, before the next
// one begins: whoever owns it, and though it is deaf to TERM.
func TestReplace(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		dir, port := stateDir(t), freePort(t)
		o, other := openOwner(t, custody.Options{Dir: dir}), openOwner(t, custody.Options{Dir: dir})
		start := func(from *custody.Owner, replace bool) (*custody.Cmd, error) {
			c := server(t, from, port, "-ignore", "TERM")
			c.Phases[0].Wait = 200 * time.Millisecond
			c.Kept, c.Name, c.Replace, c.Ports = kept, "n", replace, []int{port}
			return c, c.Start()
		}
		first, err := start(o, true) // nobody to replace
		must(t, err)
		until(t, "it listens", func() bool { return listens(port) })
		if _, err := start(other, false); !errors.Is(err, custody.ErrNameHeld) {
			t.Fatalf("without --replace: %v", err)
		}
		for i, from := range []*custody.Owner{other, other, o} {
			next, err := start(from, true)
			must(t, err)
			if ms, err := first.Launch().Members(); i == 0 && (err != nil || len(ms) > 0) {
				t.Errorf("replaced, and there still: %v %v", ms, err)
			}
			until(t, "the next one listens", func() bool { return listens(port) })
			list, err := custody.List(t.Context(), custody.ListOptions{Dir: dir})
			must(t, err)
			if len(list.Launches) != 1 || list.Launches[0].ID != next.Launch().ID() {
				t.Fatalf("%+v", list.Launches)
			}
		}
	})
}

// One that outlived its owner is replaced too, by its record.
func TestReplaceASurvivor(t *testing.T) {
	dir, port := stateDir(t), freePort(t)
	var last *custody.Launch
	for range 2 {
		o := openOwner(t, custody.Options{Dir: dir})
		c := server(t, o, port)
		c.Kept, c.Name, c.Replace, c.Ports, c.OnOwnerDeath = true, "n", true, []int{port}, custody.Survive
		must(t, c.Start())
		last = c.Launch()
		must(t, o.Close())
		until(t, "it listens", func() bool { return listens(port) })
	}
	st, err := custody.StatusOf(t.Context(), "n", custody.ListOptions{Dir: dir})
	if err != nil || st.ID != last.ID() || st.State != custody.StateRunning {
		t.Errorf("%+v %v", st, err)
	}
	_, err = custody.Stop(t.Context(), "n", custody.StopOptions{Dir: dir})
	must(t, err)
}

// With a stranger on a port that the next one needs, the first is not stopped.
func TestReplaceStopsNothingInVain(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	pid, log, _ := onlooker(t, l.(*net.TCPListener))
	l.Close()
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	first := sleeper(o, false)
	first.Name = "n"
	must(t, first.Start())
	next := server(t, o, port)
	next.Name, next.Replace, next.Ports = "n", true, []int{port}
	err = next.Start()
	var held *custody.PortHeldError
	if !errors.As(err, &held) || held.PID != pid || !strings.Contains(err.Error(), "not stopped") {
		t.Fatal(err)
	}
	untouched(t, pid, log)
	select {
	case <-first.Launch().Exited():
		t.Error("the first was stopped")
	default:
	}
}

// What the replaced one left in the kernel is waited for.
func TestReplaceWaitsForThePort(t *testing.T) {
	port, letGo := blocker(t)
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	first := sleeper(o, false)
	first.Name = "n"
	must(t, first.Start())
	next := sleeper(o, false)
	next.Name, next.Replace, next.Ports = "n", true, []int{port}
	done := make(chan error, 1)
	go func() { done <- next.Start() }()
	within(t, "the first one's end", func() { <-first.Launch().Gone() })
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(1500 * time.Millisecond):
	}
	letGo()
	within(t, "the start", func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Of several that replace one at once, each has one outcome, and one is left.
func TestReplaceAtOnce(t *testing.T) {
	dir := stateDir(t)
	owners := []*custody.Owner{openOwner(t, custody.Options{Dir: dir}), openOwner(t, custody.Options{Dir: dir}), openOwner(t, custody.Options{Dir: dir})}
	for round := range 6 {
		kept := round%2 == 1
		first := sleeper(owners[0], kept)
		first.Name, first.Replace = "n", true
		must(t, first.Start())
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for _, o := range owners {
			c := sleeper(o, kept)
			c.Name, c.Replace = "n", true
			wg.Go(func() {
				err := c.Start()
				switch {
				case err == nil:
					mu.Lock()
					won++
					mu.Unlock()
				case !errors.Is(err, custody.ErrNameHeld) && !errors.Is(err, custody.ErrStoppedEarly):
					t.Error(err)
				}
			})
		}
		within(t, "the replacers", wg.Wait)
		list, err := custody.List(t.Context(), custody.ListOptions{Dir: dir})
		must(t, err)
		if won < 1 || len(list.Launches) != 1 || list.Launches[0].ID == first.Launch().ID() {
			t.Fatalf("%d started, and there are %+v", won, list.Launches)
		}
	}
}

// Close ends the wait for a port.
func TestCloseEndsAReplacement(t *testing.T) {
	port, _ := blocker(t)
	dir := stateDir(t)
	o, other := openOwner(t, custody.Options{Dir: dir}), openOwner(t, custody.Options{Dir: dir})
	first := sleeper(other, false)
	first.Name = "n"
	must(t, first.Start())
	done := make(chan error, 1)
	go func() {
		c := sleeper(o, false)
		c.Name, c.Replace, c.Ports = "n", true, []int{port}
		done <- c.Start()
	}()
	within(t, "the first one's end", func() { <-first.Launch().Gone() })
	within(t, "Close", func() { o.Close() })
	within(t, "the start", func() {
		if err := <-done; !errors.Is(err, custody.ErrClosed) {
			t.Errorf("start: %v", err)
		}
	})
}
