package reap

// Orphans at full speed beside commands of the same program, started in each of
// the ways in which a simple reaper steals.

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func init() { roles["storm"] = storm }

// TestStorm is promise I5 for programs that reap by themselves.
func TestStorm(t *testing.T) {
	long := os.Getenv("REAP_LONG") != ""
	for _, c := range []struct {
		name         string
		env          string
		small, large order
	}{
		{"PID 1", "", order{Orphans: 20000, Commands: 1000}, order{Orphans: 80000, Commands: 32000}},
		{"subreaper", "", order{Below: true, Orphans: 2000, Commands: 300, Owned: 100}, order{Below: true, Orphans: 20000, Commands: 1000, Owned: 1000}},
		{"threads that end", "", order{Orphans: 2000, Ended: 300, Owned: 100}, order{Orphans: 20000, Ended: 1200, Owned: 1000}},
		{"main thread", "", order{Orphans: 2000, Main: 300, Commands: 100, Owned: 100}, order{Orphans: 20000, Main: 2000, Commands: 1000, Owned: 1000}},
		{"garbage collector", "", order{Orphans: 1000, Main: 100, Commands: 100, Owned: 100, Ended: 100, Stress: true}, order{Orphans: 20000, Main: 500, Commands: 500, Owned: 500, Ended: 500, Stress: true}},
		{"patience", "", order{Orphans: 1000, Main: 100, Commands: 100, Owned: 100, Ended: 100, Patience: 100 * time.Millisecond}, order{Orphans: 20000, Main: 500, Commands: 500, Owned: 500, Ended: 500, Patience: 500 * time.Millisecond}},
		{"handles without inodes", "inode", order{Orphans: 1000, Main: 100, Commands: 100, Owned: 100, Ended: 100}, order{Orphans: 20000, Main: 500, Commands: 500, Owned: 500, Ended: 500}},
		// os/exec has its handles all the same, but they are not looked at.
		{"no handles", "pidfd", order{Orphans: 1000, Owned: 300, Commands: 300, Patience: time.Nanosecond}, order{Orphans: 20000, Owned: 2000, Commands: 2000, Patience: time.Nanosecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.small
			if long {
				o = c.large
			}
			o.Role = "storm"
			start := time.Now()
			out := inNamespace(t, o, "CUSTODY_DEBUG_WITHOUT="+c.env)
			t.Logf("%v: %s", time.Since(start).Round(time.Millisecond), out)
		})
	}
}

func storm(o order) error {
	if o.Stress {
		debug.SetGCPercent(1)
	}
	before := cpu()
	var strange atomic.Int64
	r, err := Begin(Options{Subreaper: o.Below, Patience: o.Patience, OnReaped: func(d Orphan) {
		if d.Status != 3<<8 {
			strange.Add(1)
		}
	}})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var lost atomic.Int64
	var firstLoss atomic.Pointer[error]
	check := func(want int, err error) {
		code := 0
		if e, ok := err.(*exec.ExitError); ok {
			code, err = e.ExitCode(), nil
		}
		if err != nil || code != want {
			err = fmt.Errorf("exit %d came back as %d, %v", want, code, err)
			lost.Add(1)
			firstLoss.CompareAndSwap(nil, &err)
		}
	}
	command := func(i int) (*exec.Cmd, int) { return exec.Command("sh", "-c", "exit "+strconv.Itoa(i%200)), i % 200 }
	each := func(n, workers int, f func(i int)) {
		var next atomic.Int64
		for range workers {
			wg.Go(func() {
				for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
					f(i)
				}
			})
		}
	}
	const shells = 4
	for range shells {
		wg.Go(func() {
			check(0, exec.Command("sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do (exit 3 &); i=$((i+1)); done", o.Orphans/shells)).Run())
		})
	}
	each(o.Commands, 4, func(i int) {
		cmd, want := command(i)
		check(want, cmd.Run())
	})
	each(o.Owned, 4, func(i int) {
		cmd, want := command(i)
		check(want, Run(cmd))
	})
	each(o.Ended, 4, func(i int) {
		cmd, want := command(i)
		started := make(chan error)
		go func() {
			runtime.LockOSThread() // and so the thread ends with us
			started <- cmd.Start()
		}()
		if err := <-started; err != nil {
			check(want, err)
			return
		}
		time.Sleep(time.Duration(i%4) * time.Millisecond) // it ends before, during or after
		check(want, cmd.Wait())
	})
	for i := range o.Main {
		cmd, want := command(i)
		check(want, cmd.Run())
	}
	wg.Wait()
	time.Sleep(time.Second)
	left, err := zombies()
	if err != nil || left > 0 {
		return fmt.Errorf("%d zombies are left: %v, %+v", left, err, r.Stats())
	}
	s := r.Stats()
	r.Close()
	if s.Err != nil || s.Reaped != uint64(o.Orphans) || lost.Load() > 0 || strange.Load() > 0 {
		err := fmt.Errorf("none")
		if p := firstLoss.Load(); p != nil {
			err = *p
		}
		return fmt.Errorf("of %d orphans %d were collected, %d with a strange status; %d commands lost theirs, the first: %v; %+v", o.Orphans, s.Reaped, strange.Load(), lost.Load(), err, s)
	}
	fmt.Printf("%d orphans, %d looks, %v of cpu\n", s.Reaped, s.Looks, cpu()-before)
	return nil
}

// cpu is what this process has used, its children not included.
func cpu() time.Duration {
	var ru syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
