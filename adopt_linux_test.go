package custody_test

// Launches that are taken over: by exactly one, whatever comes in between and
// whoever dies where.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/tree"
	"golang.org/x/sys/unix"
)

func init() { roles["adopter"] = playAdopter }

// playAdopter takes the launch over by its name, and says so.
func playAdopter(o order) {
	ow, err := custody.Open(context.Background(), "test", &custody.Options{Dir: o.Dir})
	if err != nil {
		fatal(err)
	}
	l, err := ow.Adopt(context.Background(), o.Name)
	if err != nil {
		fatal(err)
	}
	fmt.Println("adopted", l.ID())
	suicide()
}

// outlived leaves a launch named n whose owner has died: a leader that stays,
// and two members deaf to TERM.
func outlived(t *testing.T, dir string, env ...string) (pids string, id string) {
	t.Helper()
	adopt(t)
	pids = filepath.Join(t.TempDir(), "pids")
	t.Cleanup(func() {
		endTree(t, pids)
		until(t, "orphans are collected", func() bool { return len(orphans(t)) == 0 })
	})
	ord := order{Dir: dir, Kept: true, Survive: true, Pids: pids, Name: "n", End: "kill",
		Command: tree.Command("leader-dies", "-leader", "stay", "-n", "2", "-ignore", "TERM", "-pids", pids, "-life", "60s")}
	out, err := play(t, "owner", ord, env...).Output()
	expectKilled(t, "owner", err)
	f := strings.Fields(string(out))
	if len(f) != 2 {
		t.Fatalf("owner said %q", out)
	}
	return pids, f[1]
}

// recordFiles lists where the records of a launch lie.
func recordFiles(t *testing.T, dir, id string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", id+".json"))
	must(t, err)
	return files
}

// edit changes a record on disk.
func edit(t *testing.T, file string, change func(r map[string]any)) {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	r := map[string]any{}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	must(t, d.Decode(&r))
	change(r)
	b, err = json.Marshal(r)
	must(t, err)
	must(t, os.WriteFile(file, b, 0o600))
}

// stopped ends a launch by a stop from outside.
func stopped(t *testing.T, dir, id, pids string) {
	t.Helper()
	res, err := custody.Stop(t.Context(), id, custody.StopOptions{Dir: dir})
	if err != nil || res.Outcome != "gone" {
		t.Errorf("stop: %+v, %v", res, err)
	}
	if left := alive(t, pids); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// An adopter is killed at a step of the move: the launch has one record, which
// is believed, and whoever comes next has one outcome.
func TestCrashWhileAdopting(t *testing.T) {
	for step, who := range steps {
		if slices.Contains(who, "s/adopter") {
			t.Run(step, func(t *testing.T) { crashAdopter(t, step) })
		}
	}
}

func crashAdopter(t *testing.T, step string) {
	for next, f := range map[string]func(t *testing.T, dir, id, pids string){
		"adopt": func(t *testing.T, dir, id, pids string) {
			o := openOwner(t, custody.Options{Dir: dir})
			l, err := o.Adopt(t.Context(), "n")
			must(t, err)
			if _, err := l.Stop(t.Context()); err != nil || len(alive(t, pids)) > 0 {
				t.Errorf("stop: %v, left %v", err, alive(t, pids))
			}
		},
		"behalf": func(t *testing.T, dir, id, pids string) {
			_, err := custody.Adopt(t.Context(), id, custody.AdoptOptions{Dir: dir, PID: os.Getpid()})
			must(t, err)
			st, err := custody.StatusOf(t.Context(), id, custody.ListOptions{Dir: dir})
			if err != nil || st.Owner.PID != os.Getpid() || !st.Owner.Alive {
				t.Errorf("status: %+v, %v", st, err)
			}
			stopped(t, dir, id, pids)
		},
		"stop": stopped,
		"sweep": func(t *testing.T, dir, id, pids string) {
			rep, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
			if err != nil || len(rep.SetAside) > 0 || len(rep.Launches) != 1 || rep.Launches[0].Outcome != "survives" {
				t.Errorf("sweep: %+v, %v", rep, err)
			}
			if n := len(alive(t, pids)); n != 3 {
				t.Errorf("%d processes", n)
			}
			stopped(t, dir, id, pids)
		},
	} {
		t.Run(next, func(t *testing.T) {
			dir := stateDir(t)
			pids, id := outlived(t, dir)
			reached := filepath.Join(t.TempDir(), "reached")
			expectKilled(t, "adopter", play(t, "adopter", order{Dir: dir, Name: "n"}, "CUSTODY_TEST_CRASH=owner/"+step+":"+reached).Run())
			if _, err := os.Stat(reached); err != nil {
				t.Errorf("the step was not reached: %v", err)
			}
			if at := recordFiles(t, dir, id); len(at) != 1 {
				t.Fatalf("records: %v", at)
			}
			l, err := custody.List(t.Context(), custody.ListOptions{Dir: dir})
			if err != nil || len(l.SetAside) > 0 || len(l.Launches) != 1 || len(l.Launches[0].PIDs) != 3 {
				t.Fatalf("list: %+v, %v", l, err)
			}
			f(t, dir, id, pids)
			st, err := custody.StatusOf(t.Context(), id, custody.ListOptions{Dir: dir})
			if err != nil || st.State != custody.StateExited || st.Exit.Signal != "TERM" {
				t.Errorf("at the end: %+v, %v", st, err)
			}
			if at := recordFiles(t, dir, id); len(at) != 1 {
				t.Errorf("records at the end: %v", at)
			}
		})
	}
}

// Owners in one process exclude each other as processes do.
func TestAdoptByManyOwners(t *testing.T) {
	dir := stateDir(t)
	pids, id := outlived(t, dir)
	for round := range 5 {
		owners := make([]*custody.Owner, 4)
		for i := range owners {
			owners[i] = openOwner(t, custody.Options{Dir: dir})
		}
		got := make([]*custody.Launch, 2*len(owners))
		errs := make([]error, len(got))
		var wg sync.WaitGroup
		for i := range got { // each owner twice
			wg.Go(func() { got[i], errs[i] = owners[i/2].Adopt(t.Context(), "n") })
		}
		wg.Wait()
		won := -1
		for i := range got {
			if errs[i] == nil {
				if won >= 0 && got[i] != got[won] {
					t.Fatalf("round %d: two launches", round)
				}
				won = i
			}
		}
		if won < 0 {
			t.Fatalf("round %d: nobody won: %v", round, errs)
		}
		for i, err := range errs {
			var taken *custody.TakenError
			if i/2 == won/2 {
				if err != nil {
					t.Errorf("round %d: the winner asked twice: %v", round, err)
				}
			} else if !errors.Is(err, custody.ErrTaken) || !errors.As(err, &taken) || taken.PID != os.Getpid() || taken.Owner != owners[won/2].ID() {
				t.Errorf("round %d: %v", round, err)
			}
		}
		for i, o := range owners {
			if n := len(o.Launches()); n != map[bool]int{true: 1, false: 0}[i == won/2] {
				t.Errorf("round %d: owner %d has %d launches", round, i, n)
			}
			must(t, o.Close()) // the one that has it leaves it alone
		}
		if n := len(alive(t, pids)); n != 3 {
			t.Fatalf("round %d: %d processes", round, n)
		}
		select {
		case <-got[won].Exited():
			if _, err := got[won].Wait(t.Context()); !errors.Is(err, custody.ErrClosed) {
				t.Errorf("round %d: wait after close: %v", round, err)
			}
		default:
			t.Errorf("round %d: nobody tells who waits that the owner closed", round)
		}
	}
	if dirs := ownerDirs(t, dir); len(dirs) != 1 {
		t.Errorf("owners: %v", dirs)
	}
	stopped(t, dir, id, pids)
}

// ownerDirs lists the owners of the scope of the tests.
func ownerDirs(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "test", "*", "owner.json"))
	must(t, err)
	return files
}

// pausing starts an adopter that is slow at a step, and returns when it is
// there.
func pausing(t *testing.T, dir, id, step string) (wait func() (string, error)) {
	t.Helper()
	c := play(t, "adopter", order{Dir: dir, Name: "n"}, "CUSTODY_TEST_PAUSE=owner/"+step+"=1s")
	var out strings.Builder
	c.Stdout = &out
	c.Stderr = &out
	must(t, c.Start())
	was := recordFiles(t, dir, id)[0]
	until(t, "the record is on its way", func() bool {
		now := recordFiles(t, dir, id)
		if len(now) != 1 {
			return false
		}
		b, err := os.ReadFile(now[0])
		return err == nil && strings.Contains(string(b), "taken_by") && (now[0] != was) == (step == "move-moved")
	})
	return func() (string, error) {
		err := c.Wait()
		return out.String(), err
	}
}

// What comes while a record is on its way: a stop, a sweep, another adopter, a
// start under the name, a wait, a status. One outcome, and no deadlock.
func TestDuringAdopt(t *testing.T) {
	for _, step := range []string{"move-named", "move-moved"} {
		for what, f := range map[string]func(t *testing.T, dir, id, pids string) (over bool){
			"stop": func(t *testing.T, dir, id, pids string) bool {
				stopped(t, dir, id, pids)
				return true
			},
			"two stops": func(t *testing.T, dir, id, pids string) bool {
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() {
						if res, err := custody.Stop(t.Context(), "n", custody.StopOptions{Dir: dir}); err != nil || res.Outcome != "gone" {
							t.Errorf("stop: %+v, %v", res, err)
						}
					})
				}
				wg.Wait()
				return true
			},
			"sweep": func(t *testing.T, dir, id, pids string) bool {
				rep, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
				if err != nil || len(rep.SetAside)+len(rep.Incomplete()) > 0 {
					t.Errorf("sweep: %+v, %v", rep, err)
				}
				return false
			},
			"adopt": func(t *testing.T, dir, id, pids string) bool {
				o := openOwner(t, custody.Options{Dir: dir})
				l, err := o.Adopt(t.Context(), "n")
				// The first one won, and died.
				if err == nil {
					_, err = l.Stop(t.Context())
					must(t, err)
					return true
				}
				if !errors.Is(err, custody.ErrTaken) {
					t.Errorf("adopt: %v", err)
				}
				return false
			},
			"start": func(t *testing.T, dir, id, pids string) bool {
				o := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
				for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); {
					c := sleeper(o, false)
					c.Name = "n"
					if err := c.Start(); !errors.Is(err, custody.ErrNameHeld) {
						t.Fatalf("start under the name: %v", err)
					}
				}
				return false
			},
			"status": func(t *testing.T, dir, id, pids string) bool {
				for end := time.Now().Add(1200 * time.Millisecond); time.Now().Before(end); {
					st, err := custody.StatusOf(t.Context(), "n", custody.ListOptions{Dir: dir})
					if err != nil || st.State != custody.StateRunning || st.ExitLost {
						t.Errorf("status: %+v, %v", st, err)
					}
				}
				return false
			},
			"wait": func(t *testing.T, dir, id, pids string) bool {
				ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
				defer cancel()
				if x, err := custody.Wait(ctx, id, custody.ListOptions{Dir: dir}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("wait: %v, %v", x, err)
				}
				return false
			},
		} {
			t.Run(step+"/"+what, func(t *testing.T) {
				dir := stateDir(t)
				pids, id := outlived(t, dir)
				adopter := pausing(t, dir, id, step)
				over := f(t, dir, id, pids)
				said, err := adopter()
				expectKilled(t, "adopter", err)
				if !strings.Contains(said, "adopted "+id) {
					t.Errorf("the adopter said %q", said)
				}
				if at := recordFiles(t, dir, id); len(at) != 1 {
					t.Errorf("records: %v", at)
				}
				if over {
					if left := alive(t, pids); len(left) > 0 {
						t.Errorf("left: %v", left)
					}
				} else if n := len(alive(t, pids)); n != 3 {
					t.Errorf("%d processes", n)
				}
				stopped(t, dir, id, pids)
				st, err := custody.StatusOf(t.Context(), id, custody.ListOptions{Dir: dir})
				if err != nil || st.State != custody.StateExited {
					t.Errorf("at the end: %+v, %v", st, err)
				}
			})
		}
	}
}

// A stop in progress is waited for as long as the caller likes; then the launch
// has ended, and can be adopted all the same.
func TestAdoptDuringStop(t *testing.T) {
	dir := stateDir(t)
	pids, id := outlived(t, dir)
	began, done := make(chan struct{}), make(chan error, 1)
	begun := sync.OnceFunc(func() { close(began) })
	go func() {
		_, err := custody.Stop(context.Background(), id, custody.StopOptions{Dir: dir,
			Phases:     []custody.Phase{{Signal: syscall.SIGTERM, Wait: 2 * time.Second}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}},
			OnProgress: func(custody.StopProgress) { begun() }})
		done <- err
	}()
	<-began
	time.Sleep(100 * time.Millisecond)
	o := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	from := time.Now()
	if _, err := o.Adopt(ctx, id); !errors.Is(err, context.DeadlineExceeded) || time.Since(from) > time.Second {
		t.Errorf("adopt with little time: %v after %v", err, time.Since(from))
	}
	l, err := o.Adopt(t.Context(), id)
	must(t, err)
	must(t, <-done)
	state, err := l.Wait(t.Context())
	if state == nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("wait: %v, %v", state, err)
	}
	within(t, "Gone", func() { <-l.Gone() })
	if left := alive(t, pids); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// An owner that closes is kept by no adoption.
func TestCloseDuringAdopt(t *testing.T) {
	dir := stateDir(t)
	_, id := outlived(t, dir)
	at := recordFiles(t, dir, id)[0]
	d, err := ledger.OpenOwnerAt(filepath.Dir(at))
	must(t, err)
	defer d.Close()
	launch, err := custody.ParseID(id)
	must(t, err)
	release, err := d.HoldStop(t.Context(), launch) // as if somebody were stopping it
	must(t, err)
	defer release()
	o := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
	got := make(chan error, 1)
	go func() {
		_, err := o.Adopt(t.Context(), id)
		got <- err
	}()
	time.Sleep(200 * time.Millisecond)
	within(t, "Close", func() { must(t, o.Close()) })
	if err := <-got; !errors.Is(err, custody.ErrClosed) {
		t.Errorf("adopt: %v", err)
	}
	if now := recordFiles(t, dir, id); len(now) != 1 || now[0] != at {
		t.Errorf("records: %v", now)
	}
}

// Nothing but a launch that outlives its owner is ever taken over.
func TestAdoptRefuses(t *testing.T) {
	dir := stateDir(t)
	pids := orphaned(t, dir) // it was to die with its owner
	o := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
	if _, err := o.Adopt(t.Context(), "n"); err == nil || !strings.Contains(err.Error(), "kill") {
		t.Errorf("a launch that is to die: %v", err)
	}
	if _, err := custody.Adopt(t.Context(), "n", custody.AdoptOptions{Dir: dir, PID: os.Getpid()}); err == nil || !strings.Contains(err.Error(), "kill") {
		t.Errorf("on behalf: %v", err)
	}
	if _, err := o.Adopt(t.Context(), "nobody"); !errors.Is(err, custody.ErrNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	own := sleeper(o, false)
	own.Name = "own"
	must(t, own.Start())
	if l, err := o.Adopt(t.Context(), "own"); err != nil || l != own.Launch() {
		t.Errorf("our own: %v, %v", l, err)
	}
	other := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
	if _, err := other.Adopt(t.Context(), "own"); !errors.Is(err, custody.ErrTaken) {
		t.Errorf("a living owner's: %v", err)
	}
	if _, err := custody.Adopt(t.Context(), "n", custody.AdoptOptions{Dir: dir, PID: 0}); err == nil {
		t.Error("nobody adopted it")
	}
	if n := len(alive(t, pids)); n != 3 {
		t.Errorf("%d processes", n)
	}
	_, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
	must(t, err)
	must(t, o.Close())
	own.Wait()
}

// A launch that is just being started is not taken for one that was adopted.
func TestAdoptOfOneBeingStarted(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	first := sleeper(o, true)
	first.Name, first.OnOwnerDeath = "n", custody.Survive
	must(t, first.Start())
	c := sleeper(o, true)
	c.Name, c.OnOwnerDeath, c.WaitName = "n", custody.Survive, true
	got := make(chan error, 1)
	go func() { got <- c.Start() }()
	var intent string
	until(t, "its intent is written", func() bool {
		l, err := custody.List(t.Context(), custody.ListOptions{Dir: dir})
		must(t, err)
		for _, x := range l.Launches {
			if x.ID != first.Launch().ID() {
				intent = x.ID.String()
			}
		}
		return intent != ""
	})
	if l, err := o.Adopt(t.Context(), intent); err == nil || !strings.Contains(err.Error(), "started") {
		t.Errorf("adopt: %v, %v", l, err)
	}
	_, err := first.Launch().Stop(t.Context())
	must(t, err)
	must(t, <-got)
	if l, err := o.Adopt(t.Context(), intent); err != nil || l != c.Launch() {
		t.Errorf("adopt after the start: %v, %v", l, err)
	}
	for _, c := range []*custody.Cmd{first, c} {
		c.Launch().Kill(t.Context())
		c.Wait()
	}
}

// On a full disk nothing is taken over, and nothing is lost.
func TestAdoptOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128k,mode=700"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	pids, id := outlived(t, dir)
	o := openOwner(t, custody.Options{Dir: dir})
	at := recordFiles(t, dir, id)
	ballast := filepath.Join(dir, ".fill")
	f, err := os.Create(ballast)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if _, err := o.Adopt(t.Context(), id); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("adopt: %v", err)
	}
	if _, err := custody.Adopt(t.Context(), id, custody.AdoptOptions{Dir: dir, PID: os.Getpid()}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("adopt on behalf: %v", err)
	}
	if now := recordFiles(t, dir, id); len(now) != 1 || now[0] != at[0] {
		t.Errorf("records: %v, were %v", now, at)
	}
	if n := len(alive(t, pids)); n != 3 {
		t.Errorf("%d processes", n)
	}
	must(t, os.Remove(ballast))
	l, err := o.Adopt(t.Context(), id)
	must(t, err)
	// The end on a full disk: the tree is gone and the name free, if need be
	// without a record of how it ended.
	f, err = os.Create(ballast)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if res, err := l.Stop(t.Context()); err != nil || res.Outcome != "gone" {
		t.Errorf("stop: %+v, %v", res, err)
	}
	if left := alive(t, pids); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	must(t, os.Remove(ballast))
	c := sleeper(o, false)
	c.Name = "n"
	must(t, c.Start())
	must(t, o.Close())
	c.Wait()
}

// What was recorded on another machine, or in another PID namespace, is not
// touched by anybody; of an earlier boot nothing lives.
func TestSurvivorOfElsewhere(t *testing.T) {
	for what, c := range map[string]struct {
		change func(r map[string]any)
		state  string
	}{
		"host":      {func(r map[string]any) { r["host"], r["boot"] = strings.Repeat("ab", 16), strings.Repeat("cd", 16) }, custody.StateForeign},
		"namespace": {func(r map[string]any) { r["pid_namespace"] = json.Number("4711") }, custody.StateForeign},
		"boot":      {func(r map[string]any) { r["boot"] = strings.Repeat("cd", 16) }, custody.StateGone},
	} {
		t.Run(what, func(t *testing.T) {
			dir := stateDir(t)
			pids, id := outlived(t, dir, "CUSTODY_DEBUG_WITHOUT=cgroup")
			file := recordFiles(t, dir, id)[0]
			edit(t, file, c.change)
			edit(t, filepath.Join(filepath.Dir(file), "owner.json"), c.change)
			before, err := os.ReadFile(file)
			must(t, err)
			lopt := custody.ListOptions{Dir: dir}
			st, err := custody.StatusOf(t.Context(), "n", lopt)
			if err != nil || st.State != c.state || st.KeeperPID != 0 || len(st.PIDs) > 0 {
				t.Errorf("status: %+v, %v", st, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			x, err := custody.Wait(ctx, "n", lopt)
			if err == nil || ctx.Err() != nil {
				t.Errorf("wait: %v, %v", x, err)
			}
			if what == "boot" {
				if !strings.Contains(st.Reason, "anew") || !errors.Is(err, custody.ErrStatusUnknown) {
					t.Errorf("status %+v, wait: %v", st, err)
				}
				o := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
				c := sleeper(o, false)
				l, err := o.Adopt(t.Context(), "n") // what is left of it is how it ended
				must(t, err)
				if _, err := l.Wait(ctx); !errors.Is(err, custody.ErrStatusUnknown) {
					t.Errorf("wait after adopt: %v", err)
				}
				c.Name = "n"
				must(t, c.Start())
				must(t, o.Close())
				c.Wait()
			} else {
				o := openOwner(t, custody.Options{Dir: dir})
				if _, err := o.Adopt(t.Context(), "n"); err == nil || errors.Is(err, custody.ErrTaken) {
					t.Errorf("adopt: %v", err)
				}
				if _, err := custody.Adopt(t.Context(), "n", custody.AdoptOptions{Dir: dir, PID: os.Getpid()}); err == nil {
					t.Error("adopted on behalf")
				}
				if res, err := custody.Stop(t.Context(), "n", custody.StopOptions{Dir: dir}); err == nil || len(res.Signalled) > 0 || res.Outcome != "foreign" {
					t.Errorf("stop: %+v, %v", res, err)
				}
				rep, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
				if err != nil || len(rep.Launches) != 1 || rep.Launches[0].Outcome != "foreign" {
					t.Errorf("sweep: %+v, %v", rep, err)
				}
				if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
					t.Errorf("the record was touched: %v", err)
				}
			}
			if n := len(alive(t, pids)); n != 3 {
				t.Errorf("%d processes", n)
			}
			endTree(t, pids)
			until(t, "the keeper is gone", func() bool { return len(orphans(t)) == 0 })
		})
	}
}
