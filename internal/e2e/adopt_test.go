//go:build linux

// Launches that outlive their owner, and who has them then.

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/tree"
	"golang.org/x/sys/unix"
)

// both are the levels of launches that outlive their owner.
var both = []level{lineage, cgroupKept}

// survivor starts a launch that outlives its owner, in the scope of the tests.
func (c *client) survivor(name string, args []string) *started {
	c.r.t.Helper()
	return c.start(spec{Args: args, Name: name, Kept: true, Survive: true})
}

// records lists where the records of a launch are.
func (r *rig) records(id string) []string {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.state, "*", "*", id+".json"))
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// rec reads a launch's record, wherever it is.
func (r *rig) rec(id string) *ledger.Record {
	r.t.Helper()
	var rec *ledger.Record
	until(r.t, "launch "+id+" has one record", func() bool {
		at := r.records(id)
		if len(at) != 1 {
			return false
		}
		b, err := os.ReadFile(at[0])
		if err != nil {
			return false
		}
		rec, err = ledger.DecodeRecord(b)
		if err != nil {
			r.t.Fatal(err)
		}
		return true
	})
	return rec
}

// owners lists the directories of the owners of the tests' scope.
func (r *rig) owners() []string {
	r.t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.state, "e2e"))
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if n := e.Name(); n != "names" && n != "logs" && !strings.HasPrefix(n, ".") {
			out = append(out, n)
		}
	}
	return out
}

// keeperOf opens the keeper of a launch by its record.
func (r *rig) keeperOf(id string) handle {
	r.t.Helper()
	rec := r.rec(id)
	if rec.Keeper == nil {
		r.t.Fatalf("no keeper: %+v", rec)
	}
	h := openExactly(tree.Proc{Role: "keeper", PID: rec.Keeper.PID, Start: rec.Keeper.Start})
	r.t.Cleanup(h.close)
	return h
}

// keepersOf counts the processes that keep a launch, by the title they bear.
func keepersOf(t *testing.T, id string) int {
	t.Helper()
	n := 0
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		b, _ := os.ReadFile(l)
		if f := strings.Split(string(b), "\x00"); len(f) > 2 && f[0] == "custody-keeper" && f[2] == id[:8] {
			n++
		}
	}
	return n
}

// adopt asks an owner to take a launch over.
func (c *client) adopt(launch string) (*started, answer) {
	c.r.t.Helper()
	a := c.ask(request{Do: "adopt", Name: launch})
	return &started{c, a.Count, a.ID, a}, a
}

func (c *client) mustAdopt(launch string) *started {
	c.r.t.Helper()
	l, a := c.adopt(launch)
	if a.Err != "" {
		c.r.t.Fatalf("adopt: %s", a.Err)
	}
	return l
}

// stopsGone stops a launch by its owner and expects it gone.
func (l *started) stopsGone() {
	l.c.r.t.Helper()
	if a := l.ask(request{Do: "stop"}); a.Err != "" || a.Results[0].Outcome != "gone" {
		l.c.r.t.Errorf("stop: %+v", a)
	}
}

// The owner is killed and started again, fifty times: the same processes, one
// adoption each, one record, one keeper, and no directory of a dead owner.
func TestAdopt_FiftyRestarts(t *testing.T) {
	each(t, []level{lineage}, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.survivor("server", r.prog("setsid-escapee"))
		w := r.watch(2)
		keeper := r.keeperOf(l.id)
		for n := range 50 {
			c.kill()
			c = r.owner()
			a := c.mustAdopt("server")
			if a.PID != l.PID || a.ID != l.id {
				t.Fatalf("restart %d: adopted %+v, started %+v", n, a.answer, l.answer)
			}
			if at := r.records(l.id); len(at) != 1 || filepath.Base(filepath.Dir(at[0])) != c.opened.ID {
				t.Fatalf("restart %d: records %v, owner %s", n, at, c.opened.ID)
			}
			if dirs := r.owners(); len(dirs) != 1 {
				t.Fatalf("restart %d: owners %v", n, dirs)
			}
			adopted := 0
			for _, e := range c.ask(request{Do: "events"}).Events {
				if e.Kind == string(custody.LaunchAdopted) {
					adopted++
				}
			}
			if again := c.mustAdopt(l.id[:10]); again.ID != l.id || adopted != 1 {
				t.Fatalf("restart %d: adopted %d times, again %+v", n, adopted, again.answer)
			}
			if a := c.ask(request{Do: "launches"}); a.Count != 1 {
				t.Fatalf("restart %d: %d launches", n, a.Count)
			}
		}
		w.alive("after fifty restarts")
		if keeper.ended() || keepersOf(t, l.id) != 1 {
			t.Errorf("%d keepers, the first one ended: %v", keepersOf(t, l.id), keeper.ended())
		}
		since := time.Now()
		a := c.mustAdopt("server")
		a.stopsGone()
		w.gone(since, grace+5*time.Second)
		if st := r.status("server"); st.State != custody.StateExited || st.Exit.Signal != "TERM" {
			t.Errorf("status at the end: %+v", st)
		}
		if keepersOf(t, l.id) != 0 {
			t.Error("the keeper stays")
		}
	})
}

// Many adopt at once: exactly one wins, the others are told who has it.
func TestAdopt_ExactlyOne(t *testing.T) {
	each(t, []level{lineage}, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.survivor("server", r.prog("sleep"))
		w := r.watch(1)
		c.kill()
		for round := range 4 {
			rivals := make([]*client, 5)
			for i := range rivals {
				rivals[i] = r.ownerOf(opening{WithoutSweep: i%2 == 0})
			}
			var asked []<-chan answer
			for _, c := range rivals {
				asked = append(asked, c.later(request{Do: "adopt", Name: "server"}))
			}
			winner := -1
			var lost []answer
			for i, c := range rivals {
				if a := c.await(asked[i], "adopt"); a.Err == "" {
					if winner >= 0 {
						t.Fatalf("round %d: two winners", round)
					}
					winner = i
				} else {
					lost = append(lost, a)
				}
			}
			if winner < 0 {
				t.Fatalf("round %d: nobody won: %+v", round, lost)
			}
			won := rivals[winner]
			for _, a := range lost {
				if !slices.Contains(a.Is, "taken") || a.PID != won.proc.PID || !strings.Contains(a.Err, filepath.Base(r.bin)) {
					t.Errorf("round %d: %+v, want the winner, process %d, named", round, a, won.proc.PID)
				}
			}
			if again := won.mustAdopt("server"); again.ID != l.id {
				t.Errorf("round %d: the winner adopts again: %+v", round, again.answer)
			}
			if at := r.records(l.id); len(at) != 1 {
				t.Errorf("round %d: records %v", round, at)
			}
			for i, c := range rivals {
				if i == winner {
					c.kill()
				} else if a := c.ask(request{Do: "close"}); a.Err != "" {
					t.Errorf("close: %s", a.Err)
				}
			}
		}
		w.alive("at the end")
		if dirs := r.owners(); len(dirs) != 1 {
			t.Errorf("owners %v", dirs)
		}
		r.owner().mustAdopt("server").stopsGone()
	})
}

// The same by the command, on behalf of two processes.
func TestAdopt_OnBehalf(t *testing.T) {
	each(t, []level{lineage}, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.survivor("server", r.prog("sleep"))
		w := r.watch(1)
		c.kill()
		one := r.strangerBy("", r.progIn("one", "sleep"), nil, "one", 1)
		two := r.strangerBy("", r.progIn("two", "sleep"), nil, "two", 1)
		type end struct {
			pid  int
			out  string
			code int
		}
		for round := range 3 {
			ends := make(chan end, 4)
			for _, pid := range []int{one.PID, two.PID, one.PID, two.PID} {
				cmd := r.command("adopt", "server", "--owner", itoa(pid), "--json")
				go func() {
					out, _ := cmd.CombinedOutput()
					ends <- end{pid, string(out), exitCode(cmd)}
				}()
			}
			var won []end
			for range 4 {
				if e := <-ends; e.code == 0 {
					won = append(won, e)
				} else if other := one.PID + two.PID - e.pid; !strings.Contains(e.out, "process "+itoa(other)+" (") {
					t.Errorf("round %d: exit %d, want process %d named: %s", round, e.code, other, e.out)
				}
			}
			// The one who won may ask twice.
			if len(won) == 0 || len(won) > 2 || won[0].pid != won[len(won)-1].pid {
				t.Fatalf("round %d: winners %+v", round, won)
			}
			st := r.status("server")
			if st.State != custody.StateRunning || st.Owner.PID != won[0].pid || !st.Owner.Alive {
				t.Errorf("round %d: %+v, want owner %d", round, st, won[0].pid)
			}
			if dirs := r.owners(); len(dirs) != 1 {
				t.Errorf("round %d: owners %v", round, dirs)
			}
			if _, code := r.custody("adopt", "server", "--owner", itoa(won[0].pid)); code != 0 {
				t.Errorf("round %d: again: exit %d", round, code)
			}
			// A sweep leaves the launch of a live process to it.
			if rep := r.sweep(); rep.LiveOwners != 1 || len(rep.Launches) != 0 {
				t.Errorf("round %d: %+v", round, rep)
			}
			if round == 2 {
				break
			}
			if _, code := r.custody("adopt", "server", "--owner", itoa(os.Getpid())); code == 0 {
				t.Errorf("round %d: taken from a living owner", round)
			}
			winner := one
			if won[0].pid == two.PID {
				winner = two
			}
			winner.signal(unix.SIGKILL)
			winner.ends(10 * time.Second)
			*winner = *r.strangerBy("", r.progIn("next"+itoa(round), "sleep"), nil, "next"+itoa(round), 1)
		}
		w.alive("at the end")
		if _, code := r.custody("stop", "server"); code != 0 {
			t.Errorf("stop: exit %d", code)
		}
		// The owner of a launch that ended goes with its record.
		if _, code := r.custody("forget", l.id); code != 0 {
			t.Errorf("forget: exit %d", code)
		}
		one.signal(unix.SIGKILL)
		two.signal(unix.SIGKILL)
		one.ends(10 * time.Second)
		two.ends(10 * time.Second)
		r.sweep()
		if dirs := r.owners(); len(dirs) != 0 {
			t.Errorf("owners %v", dirs)
		}
	})
}

// exits are ways to end, and how each is told.
var exits = []struct {
	name string
	prog []string
	want custody.Exit
	end  func(t *testing.T, r *rig, w *watch) // nil: it ends by itself
}{
	{"zero", []string{"exit", "-code", "0", "-after", "700ms"}, custody.Exit{Code: 0}, nil},
	{"seven", []string{"exit", "-code", "7", "-after", "700ms"}, custody.Exit{Code: 7}, nil},
	{"segv", []string{"segfault", "-after", "700ms"}, custody.Exit{Code: -1, Signal: "SEGV"}, nil},
	{"kill", []string{"sleep"}, custody.Exit{Code: -1, Signal: "KILL"}, func(_ *testing.T, _ *rig, w *watch) {
		w.role("leader").signal(unix.SIGKILL)
	}},
	{"stop", []string{"sleep"}, custody.Exit{Code: -1, Signal: "TERM"}, func(t *testing.T, r *rig, _ *watch) {
		if _, code := r.custody("stop", "server"); code != 0 {
			t.Errorf("stop: exit %d", code)
		}
	}},
}

// waits runs the command wait, and returns what it will say.
func (r *rig) waits(launch string) func() (custody.Exit, int) {
	cmd := r.command("wait", launch, "--json")
	type said struct {
		out  []byte
		code int
	}
	done := make(chan said, 1)
	go func() {
		out, _ := cmd.Output()
		done <- said{out, exitCode(cmd)}
	}()
	return func() (x custody.Exit, code int) {
		r.t.Helper()
		s := <-done
		if s.code != 125 {
			if err := json.Unmarshal(s.out, &x); err != nil {
				r.t.Errorf("wait: exit %d, %v: %s", s.code, err, s.out)
			}
		}
		return x, s.code
	}
}

// A launch ends while no owner lives: who waited already, who asks later, and
// who adopts it are told exactly how.
func TestSurvivor_Exit(t *testing.T) {
	for _, e := range exits {
		t.Run(e.name, func(t *testing.T) {
			each(t, both, func(t *testing.T, r *rig) {
				c := r.owner()
				l := c.survivor("server", r.prog(e.prog[0], e.prog[1:]...))
				w := r.watch(1)
				c.kill()
				waiting := r.waits("server")
				if e.end != nil {
					time.Sleep(200 * time.Millisecond)
					e.end(t, r, w)
				}
				told := func(who string, x custody.Exit, code int) {
					t.Helper()
					if x != e.want || code != e.want.ShellCode() {
						t.Errorf("%s: %+v and exit %d, want %+v", who, x, code, e.want)
					}
				}
				x, code := waiting()
				told("who waited", x, code)
				x, code = r.waits(l.id[:8])()
				told("who came later", x, code)
				if st := r.status("server"); st.State != custody.StateExited || *st.Exit != e.want || st.ExitLost {
					t.Errorf("status: %+v", st)
				}
				c = r.owner()
				a := c.mustAdopt("server")
				got := a.ask(request{Do: "wait"})
				x = custody.Exit{Code: got.Code, Signal: got.Signal}
				told("who adopted it", x, x.ShellCode())
				if a := a.ask(request{Do: "gone", Within: 20 * time.Second}); a.Err != "" || a.Results[0].Outcome != "gone" {
					t.Errorf("gone: %+v", a)
				}
				if rec := r.rec(l.id); rec.State != ledger.Ended {
					t.Errorf("record: %+v", rec)
				}
				// Its name is free while its record is kept.
				c.survivor("server", r.progIn("second", "sleep")).stopsGone()
			})
		})
	}
}

// An adopted launch that ends tells its owner, as one that it started.
func TestAdopt_Exit(t *testing.T) {
	for _, e := range exits {
		t.Run(e.name, func(t *testing.T) {
			each(t, []level{lineage}, func(t *testing.T, r *rig) {
				c := r.owner()
				args := append([]string{}, e.prog...)
				for i := range args {
					if args[i] == "700ms" {
						args[i] = "2s"
					}
				}
				c.survivor("server", r.prog(args[0], args[1:]...))
				w := r.watch(1)
				c.kill()
				c = r.owner()
				a := c.mustAdopt("server")
				waiting := c.later(request{Do: "wait", Launch: a.n})
				if e.end != nil {
					e.end(t, r, w)
				}
				got := c.await(waiting, "wait")
				if x := (custody.Exit{Code: got.Code, Signal: got.Signal}); x != e.want {
					t.Errorf("%+v, want %+v: %s", x, e.want, got.Err)
				}
				if g := a.ask(request{Do: "gone", Within: 20 * time.Second}); g.Err != "" || g.Results[0].Outcome != "gone" {
					t.Errorf("gone: %+v", g)
				}
				if n := c.ask(request{Do: "launches"}).Count; n != 0 {
					t.Errorf("%d launches", n)
				}
			})
		})
	}
}

// A launch that lingers was taken over: how its leader ended is known while the
// rest of it goes on.
func TestAdopt_Linger(t *testing.T) {
	each(t, []level{lineage}, func(t *testing.T, r *rig) {
		c := r.owner()
		c.start(spec{Args: r.prog("leader-dies", "-code", "7", "-after", "3s"), Name: "server", Kept: true, Survive: true, Linger: true})
		w := r.watch(4)
		c.kill()
		c = r.owner()
		a := c.mustAdopt("server")
		w.alive("when it was taken over")
		if got := a.ask(request{Do: "wait"}); got.Code != 7 {
			t.Errorf("wait: %+v", got)
		}
		if x, code := r.waits("server")(); code != 7 {
			t.Errorf("custody wait: %+v, exit %d", x, code)
		}
		st := r.status("server")
		if st.State != custody.StateRunning || !st.LeaderGone || st.Exit == nil || st.Exit.Code != 7 || len(st.PIDs) != 3 {
			t.Errorf("status: %+v", st)
		}
		w.alive("after the leader's end", "member")
		since := time.Now()
		a.stopsGone()
		w.gone(since, grace+5*time.Second)
	})
}

// The keeper is killed: the launch is still proven and can be stopped, and
// nobody is told a status that nobody knows. While others of its group live the
// kernel still knows the leader's.
func TestSurvivor_KeeperKilled(t *testing.T) {
	each(t, both, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.survivor("server", r.prog("leader-dies", "-leader", "stay", "-ignore", "TERM"))
		w := r.watch(4)
		c.kill()
		keeper := r.keeperOf(l.id)
		keeper.signal(syscall.SIGKILL)
		keeper.ends(10 * time.Second)
		st := r.status("server")
		if st.State != custody.StateRunning || !st.ExitLost || st.LeaderGone || len(st.PIDs) != 4 || !strings.Contains(st.Reason, "unknown") {
			t.Errorf("status: %+v", st)
		}
		w.role("leader").signal(syscall.SIGKILL)
		if !w.role("leader").ends(10 * time.Second) {
			t.Fatal("the leader lives")
		}
		w.collect()
		if x, code := r.waits("server")(); code != 125 && x.Signal != "KILL" {
			t.Errorf("wait: %+v, exit %d", x, code)
		}
		st = r.status("server")
		if st.State != custody.StateRunning || !st.LeaderGone || len(st.PIDs) != 3 || st.Exit != nil && st.Exit.Signal != "KILL" {
			t.Errorf("status without the leader: %+v", st)
		}
		if rep := r.sweep(); len(rep.Launches) != 1 || rep.Launches[0].Outcome != "survives" {
			t.Errorf("sweep: %+v", rep)
		}
		since := time.Now()
		if _, code := r.custody("stop", "server"); code != 0 {
			t.Errorf("stop: exit %d", code)
		}
		w.gone(since, grace+5*time.Second)
	})
}

// Nobody saw the end, nobody knows it.
func TestSurvivor_StatusLost(t *testing.T) {
	each(t, both, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.survivor("server", r.prog("exit", "-code", "0", "-after", "2s"))
		w := r.watch(1)
		c.kill()
		keeper := r.keeperOf(l.id)
		keeper.signal(syscall.SIGKILL)
		keeper.ends(10 * time.Second)
		if !w.role("leader").ends(20 * time.Second) {
			t.Fatal("the leader lives")
		}
		for range 2 { // before it is concluded, and after
			w.collect()
			if st := r.status("server"); st.State != custody.StateGone || st.Exit != nil || !st.ExitLost || !strings.Contains(st.Reason, "keeper died") {
				t.Errorf("status: %+v", st)
			}
			if x, code := r.waits("server")(); code != 125 {
				t.Errorf("wait: %+v, exit %d", x, code)
			}
			r.sweep()
		}
		c = r.owner()
		a := c.mustAdopt("server")
		if got := a.ask(request{Do: "wait"}); !slices.Contains(got.Is, "unknown") {
			t.Errorf("wait after adopt: %+v", got)
		}
	})
}

// The same with an owner that adopted it: it sees both deaths, is told the
// status by the kernel, and ends what the leader left.
func TestAdopt_KeeperKilled(t *testing.T) {
	for _, when := range []string{"before", "after", "own"} {
		t.Run(when, func(t *testing.T) {
			each(t, []level{lineage}, func(t *testing.T, r *rig) {
				c := r.owner()
				l := c.survivor("server", r.prog("leader-dies", "-leader", "stay", "-ignore", "TERM"))
				w := r.watch(4)
				keeper := r.keeperOf(l.id)
				die := func() {
					keeper.signal(syscall.SIGKILL)
					keeper.ends(10 * time.Second)
				}
				a := l
				if when != "own" {
					c.kill()
					c = r.owner()
				}
				switch when {
				case "before":
					die()
					a = c.mustAdopt("server")
				case "after":
					a = c.mustAdopt("server")
					die()
				default:
					die()
				}
				if when != "before" {
					until(t, "the owner hears of it", func() bool {
						return slices.ContainsFunc(c.ask(request{Do: "events"}).Events, func(e event) bool { return e.Kind == string(custody.KeeperDied) })
					})
				}
				time.Sleep(300 * time.Millisecond)
				w.alive("without the keeper")
				waiting := c.later(request{Do: "wait", Launch: a.n})
				since := time.Now()
				w.role("leader").signal(syscall.SIGKILL)
				w.gone(since, grace+7*time.Second)
				if got := c.await(waiting, "wait"); got.Signal != "KILL" && !slices.Contains(got.Is, "unknown") {
					t.Errorf("wait: %+v", got)
				}
				if g := a.ask(request{Do: "gone", Within: 20 * time.Second}); g.Err != "" || g.Results[0].Outcome != "gone" {
					t.Errorf("gone: %+v", g)
				}
				if st := r.status("server"); st.State == custody.StateExited && st.Exit.Signal != "KILL" ||
					st.State != custody.StateExited && st.State != custody.StateGone {
					t.Errorf("status: %+v", st)
				}
			})
		})
	}
}

// The front process is killed hard and its workers live on: the launch ends by
// its plan, says how its leader ended, and until the last of it is gone nothing
// is started under its name.
func TestC01_FrontKilled(t *testing.T) {
	for _, deaf := range []string{"", "TERM,INT,HUP"} {
		t.Run("deaf to "+deaf, func(t *testing.T) {
			each(t, both, func(t *testing.T, r *rig) {
				start := func(pids, name string, args ...string) (string, int) {
					cmd := append([]string{"start", "--scope", "e2e", "--name", "server", "--phase", "TERM:1s", "--phase", "KILL:5s", "--"}, r.progIn(pids, name, args...)...)
					return r.custody(cmd...)
				}
				if _, code := start("pids", "leader-dies", "-leader", "signal", "-signal", "KILL", "-after", "1s", "-ignore", deaf); code != 0 {
					t.Fatalf("start: exit %d", code)
				}
				w := r.watch(4)
				waiting := r.waits("server")
				if !w.role("leader").ends(20 * time.Second) {
					t.Fatal("the leader lives")
				}
				since := time.Now()
				for n := 0; ; n++ {
					lived := len(w.living()) > 0
					if _, code := start("second", "sleep"); code == 0 {
						break
					} else if code != 125 {
						t.Errorf("second start: exit %d", code)
					}
					if !lived && n > 100 {
						t.Fatal("the name is never free")
					}
				}
				if left := w.living(); len(left) > 0 {
					t.Errorf("a second one was started beside %v", left)
				}
				w.gone(since, grace+5*time.Second)
				if x, code := waiting(); x.Signal != "KILL" || code != 137 {
					t.Errorf("wait: %+v, exit %d", x, code)
				}
				// The name now means the one that lives.
				if st := r.status("server"); st.State != custody.StateRunning {
					t.Errorf("status: %+v", st)
				}
				if _, code := r.custody("stop", "server"); code != 0 {
					t.Errorf("stop: exit %d", code)
				}
			})
		})
	}
}

// Members that look like nothing that was started, and dead ones, are owned
// whether their keeper lives or not, and nothing stays unsure.
func TestSurvivor_Disguised(t *testing.T) {
	for _, c := range []struct {
		prog         []string
		told, living int
	}{
		{[]string{"mixed"}, 8, 7},
		{[]string{"double-fork", "-ignore", "TERM"}, 3, 2},
		{[]string{"unreaped", "-n", "3"}, 4, 1},
		{[]string{"subreaper-child"}, 0, 0},
	} {
		t.Run(c.prog[0], func(t *testing.T) {
			each(t, both, func(t *testing.T, r *rig) {
				c0 := r.owner()
				l := c0.survivor("server", r.prog(c.prog[0], c.prog[1:]...))
				told := max(c.told, 2)
				w := r.watch(told)
				c0.kill()
				keeper := r.keeperOf(l.id)
				for _, kept := range []bool{true, false} {
					if !kept {
						keeper.signal(syscall.SIGKILL)
						keeper.ends(10 * time.Second)
					}
					w.collect()
					living := len(w.living())
					if c.living != 0 && living != c.living {
						t.Errorf("%d live, want %d", living, c.living)
					}
					st := r.status("server")
					if st.State != custody.StateRunning || c.living != 0 && len(st.PIDs) != living || st.LeaderGone {
						t.Errorf("kept %v: %d live, status %+v", kept, living, st)
					}
					if rep := r.sweep(); len(rep.Launches) != 1 || rep.Launches[0].Outcome != "survives" {
						t.Errorf("kept %v: sweep %+v", kept, rep)
					}
				}
				c0 = r.owner()
				a := c0.mustAdopt("server")
				since := time.Now()
				a.stopsGone()
				w.gone(since, grace+5*time.Second)
			})
		})
	}
}

// After the agent restarts, stopping a task that was running before leaves
// nothing; of two new agents exactly one attaches.
func TestC43_Restart(t *testing.T) {
	for _, prog := range []string{"double-fork", "term-ignore"} {
		for _, rivals := range []int{1, 2} {
			t.Run(prog+"/"+itoa(rivals), func(t *testing.T) {
				each(t, both, func(t *testing.T, r *rig) {
					args := r.prog(prog)
					if prog == "double-fork" {
						args = append(args, "-ignore", "TERM")
					}
					c := r.owner()
					l := c.survivor("task", args)
					w := r.watch(3)
					c.kill()
					var cs []*client
					var asked []<-chan answer
					for range rivals {
						cs = append(cs, r.owner())
					}
					for _, c := range cs {
						asked = append(asked, c.later(request{Do: "adopt", Name: l.id}))
					}
					var got *started
					for i, c := range cs {
						if a := c.await(asked[i], "adopt"); a.Err == "" && got == nil {
							got = &started{c, a.Count, a.ID, a}
						} else if a.Err == "" || !slices.Contains(a.Is, "taken") {
							t.Errorf("adopt: %+v", a)
						}
					}
					if got == nil {
						t.Fatal("nobody attached")
					}
					since := time.Now()
					got.stopsGone()
					w.gone(since, grace+5*time.Second)
					a := got.ask(request{Do: "wait"})
					if a.Signal != "TERM" && a.Signal != "KILL" && !slices.Contains(a.Is, "unknown") {
						t.Errorf("wait: %+v", a)
					}
				})
			})
		}
	}
}

// A released launch lies in the directory of an owner that closed: the next one
// that adopts it takes it back into custody.
func TestAdopt_Released(t *testing.T) {
	for _, how := range []string{"leader lives", "leader ended", "all end"} {
		t.Run(how, func(t *testing.T) {
			each(t, []level{lineage}, func(t *testing.T, r *rig) {
				args := r.prog("leader-dies", "-leader", "stay")
				if how == "all end" {
					args = append(args, "-life", "7s")
				}
				c := r.owner()
				l := c.survivor("server", args)
				w := r.watch(4)
				if a := l.ask(request{Do: "release"}); a.Err != "" {
					t.Fatal(a.Err)
				}
				if a := c.ask(request{Do: "close"}); a.Err != "" {
					t.Fatal(a.Err)
				}
				n := 4
				if how != "leader lives" {
					n = 3
					w.role("leader").signal(syscall.SIGKILL)
					w.role("leader").ends(10 * time.Second)
					until(t, "its end is written down", func() bool { return r.rec(l.id).Exit != nil })
				}
				c = r.owner()
				if st := r.status("server"); st.State != custody.StateForeign || !st.Released {
					t.Errorf("status: %+v", st)
				}
				if len(w.living()) != n {
					t.Fatalf("%d live", len(w.living()))
				}
				a := c.mustAdopt("server")
				st := r.status("server")
				if st.State != custody.StateRunning || st.Released || len(st.PIDs) != n || st.Owner.PID != c.proc.PID {
					t.Errorf("status: %+v", st)
				}
				since := time.Now()
				if how == "all end" {
					if g := a.ask(request{Do: "gone", Within: 30 * time.Second}); g.Err != "" {
						t.Errorf("gone: %+v", g)
					}
				} else {
					a.stopsGone()
				}
				w.gone(since, 20*time.Second)
				if got := a.ask(request{Do: "wait"}); got.Signal != map[bool]string{true: "TERM", false: "KILL"}[n == 4] {
					t.Errorf("wait: %+v", got)
				}
				if rec := r.rec(l.id); rec.State != ledger.Ended {
					t.Errorf("record: %+v", rec)
				}
				if keepersOf(t, l.id) != 0 {
					t.Error("the keeper stays")
				}
			})
		})
	}
}

// A stop comes while the start is under way: one outcome, and nothing is left.
func TestSurvivor_StopDuringStart(t *testing.T) {
	for _, step := range []string{"owner/after-name", "owner/before-fork", "owner/after-keeper", "keeper/keeper-before-note", "keeper/keeper-before-start", "keeper/keeper-before-record", "keeper/keeper-before-report"} {
		t.Run(step, func(t *testing.T) {
			each(t, []level{lineage}, func(t *testing.T, r *rig) {
				r.env = append(r.env, "CUSTODY_TEST_PAUSE="+step+"=1s")
				cmd := r.command(append([]string{"start", "--scope", "e2e", "--name", "server", "--"}, r.prog("sleep")...)...)
				ended := make(chan string, 1)
				go func() {
					out, _ := cmd.CombinedOutput()
					ended <- string(out)
				}()
				var id string
				until(t, "its name is taken", func() bool {
					for _, l := range r.ls() {
						id = l.ID.String()
					}
					return id != ""
				})
				waiting := r.waits("server")
				if _, code := r.custody("stop", "server"); code != 0 {
					t.Errorf("stop: exit %d", code)
				}
				said := <-ended
				x, code := waiting()
				if code := cmd.ProcessState.ExitCode(); code != 0 && !strings.Contains(said, "stopped before it began") && !strings.Contains(said, "no such launch") {
					t.Errorf("start: exit %d: %s", code, said)
				}
				if code == 0 || code != 125 && x.Signal != "TERM" {
					t.Errorf("wait: %+v, exit %d", x, code)
				}
				if procs, err := tree.ReadPids(r.file("pids")); err == nil {
					for _, p := range procs {
						h := openExactly(p)
						if !h.ends(10 * time.Second) {
							t.Errorf("%s lives after %q", h, said)
							h.signal(9)
						}
						h.close()
					}
				}
				until(t, "the keeper is gone", func() bool { return keepersOf(t, id) == 0 })
				// The name is free.
				if out, code := r.custody(append([]string{"start", "--scope", "e2e", "--name", "server", "--"}, r.progIn("next", "sleep")...)...); code != 0 {
					t.Errorf("start again: exit %d: %s", code, out)
				}
				r.custody("stop", "server")
			})
		})
	}
}

// The state directory is carried to another PID namespace: whatever is asked
// there touches nothing here.
func TestSurvivor_OtherNamespace(t *testing.T) {
	needRoot(t)
	each(t, []level{lineage}, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.survivor("server", r.prog("siglog", "-log", r.file("log")))
		w := r.watch(2)
		c.kill()
		carried := r.file("carried")
		if out, err := exec.Command("cp", "-a", r.state, carried).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		file := r.records(l.id)[0]
		rel, _ := filepath.Rel(r.state, file)
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bin, err := custodyBinary()
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{carried, r.state} {
			for args, want := range map[string]string{
				"status server --json":   `"state": "foreign"`,
				"stop server":            "foreign",
				"wait server":            "PID namespace",
				"adopt server":           "PID namespace",
				"adopt server --owner 1": "PID namespace",
				"sweep --json":           `"outcome": "foreign"`,
				"start --accept-environment --name server --scope e2e -- sleep 1": "is held by launch",
			} {
				f := strings.Fields(args)
				cmd := exec.Command("unshare", append([]string{"--pid", "--fork", "--mount-proc", "--kill-child", "timeout", "30", bin, f[0], "--dir", dir}, f[1:]...)...)
				cmd.Env = r.environ()
				out, _ := cmd.CombinedOutput()
				if !strings.Contains(string(out), want) {
					t.Errorf("%s: %s", args, out)
				}
				w.alive(args)
			}
			if after, err := os.ReadFile(filepath.Join(dir, rel)); err != nil || string(after) != string(before) {
				t.Errorf("the record was touched: %v", err)
			}
		}
		if got := signals(t, r.file("log")); len(got) > 0 {
			t.Errorf("signals: %q", got)
		}
		c = r.owner()
		c.mustAdopt("server").stopsGone()
	})
}
