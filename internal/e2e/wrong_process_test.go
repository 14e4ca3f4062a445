//go:build linux

// The wrong process: strangers that look like ours, stand where ours stand, or
// are somebody else's to end.

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/ledger"
)

// Cleanup by command-line pattern kills the user's own server, editor, or the
// cleaner itself.
func TestC16_Decoy(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		look := []string{"-name", "my-server", "--", "--port", "8080"}
		outside := r.strangerBy("", r.progIn("stranger", "decoy", look...), nil, "stranger", 1)
		l := r.owner().start(spec{Args: r.prog("decoy", look...)})
		w := r.watch(1)
		outside.untouched("while it runs")
		w.gone(l.pull(by), 5*time.Second)
		outside.untouched("at the end")
		r.sweep()
		outside.untouched("after one more sweep")
	})
}

// A stranger with the same arguments, name, parent and user, and the launch's
// cookie in its environment.
func TestTwin(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		log := r.file("log")
		l := r.owner().start(spec{Args: r.prog("siglog", "-log", log, "-n", "0")})
		w := r.watch(1)
		argv := r.prog("siglog", "-log", log, "-n", "0")
		twin := r.strangerBy("", append([]string{"setsid", "-f"}, argv...), []string{"CUSTODY_LAUNCH=" + l.id}, "pids", 2)

		// On a direct launch the cookie alone leaves a doubt, and with it the
		// record; on a kept one the missing mark settles it.
		doubt := !r.lv.kept
		since := time.Now()
		switch {
		case by == stopped:
			if a := l.ask(request{Do: "stop"}); (a.Err != "") != doubt {
				t.Errorf("stop: %s", a.Err)
			}
		case by == ownerDied:
			l.c.kill()
		default:
			l.c.killWithHelpers()
			since = time.Now()
			var rep custody.SweepReport
			if by == bothSwept {
				rep = r.sweep()
			} else {
				rep = *r.owner().opened.Swept
			}
			if len(rep.Launches) != 1 || (rep.Launches[0].Outcome == "gone") == doubt {
				t.Errorf("sweep: %+v", rep)
			}
		}
		if h := w.all[0]; !h.ends(time.Until(since.Add(grace + 5*time.Second))) {
			t.Errorf("%s lives", h)
		}
		if doubt {
			l.recordKept("while the twin lives")
		} else {
			l.recordEnded("at the end")
		}
		twin.untouched("at the end")
		for _, line := range signals(t, log) {
			if strings.Contains(line, " "+itoa(twin.PID)+" ") {
				t.Errorf("the twin got a signal: %s", line)
			}
		}
	})
}

// "An orphan's parent is PID 1" is false under a user session manager; one
// cleanup took the adopter for a parent of its own making.
func TestC22_Adopter(t *testing.T) {
	eachTrigger(t, levels, []trigger{ownerDied, bothSwept, bothOpened}, func(t *testing.T, r *rig, by trigger) {
		var log string
		c := r.adopter(&log)
		row, err := stat(c.cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		adopter := &stranger{t, openExactly(procOf(row)), log}
		defer adopter.close()
		l := c.start(spec{Args: r.prog("double-fork", "-ignore", "TERM")})
		w := r.watch(3)
		w.elder = true // the adopter collects nothing
		w.gone(l.pull(by), 5*time.Second)
		adopter.untouched("at the end")
	})
}

// Identity built on wall time: a clock step makes a process a stranger to
// itself.
func TestC25_WallClock(t *testing.T) {
	for name, by := range map[string]time.Duration{"forward": 2 * time.Hour, "back": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			eachTrigger(t, []level{group, lineage}, triggers, func(t *testing.T, r *rig, trig trigger) {
				l := r.owner().start(spec{Args: r.prog("double-fork")})
				w := r.watch(3)
				rec := readRecord(t, l.record())
				if row, err := stat(l.PID); err != nil || rec.Leader.Start != row.Start {
					t.Errorf("recorded start %d, raw ticks %d: %v", rec.Leader.Start, row.Start, err)
				}
				// What a step of the wall clock changes: every wall time that
				// is recorded is now another one.
				for _, file := range []string{l.record(), filepath.Join(filepath.Dir(l.record()), "owner.json")} {
					if n := shiftTimes(t, file, by); n != 1 {
						t.Errorf("%s holds %d wall times, want one, for people", file, n)
					}
				}
				w.gone(l.pull(trig), 5*time.Second)
				l.recordEnded("at the end")
			})
		})
	}
}

// The boot clock is another one in a time namespace: so is every start time.
func TestC25_BootClock(t *testing.T) {
	needRoot(t)
	for _, offset := range []string{"7200", "-60"} {
		t.Run(offset, func(t *testing.T) {
			each(t, []level{group, lineage}, func(t *testing.T, r *rig) {
				l := r.owner().start(spec{Args: r.prog("double-fork")})
				w := r.watch(3)
				l.c.killWithHelpers()
				since := time.Now()
				l.sweptIn(r.sweepBelow("unshare", "--time", "--boottime", offset, "--"))
				w.gone(since, 5*time.Second)
				l.recordEnded("at the end")
			})
		})
	}
}

// Two live owners of one scope: neither touches the other's.
func TestTwoOwners(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		log := r.file("log")
		a := r.owner()
		la := a.start(spec{Args: r.progIn("a", "siglog", "-log", log, "-n", "1")})
		wa := r.watchIn("a", 2)
		b := r.owner()
		lb := b.start(spec{Args: r.progIn("b", "siglog", "-log", log, "-n", "1")})
		wb := r.watchIn("b", 2)
		mine := func(when string, w *watch) {
			t.Helper()
			w.alive(when)
			for _, line := range signals(t, log) {
				for _, h := range w.all {
					if strings.Contains(line, " "+itoa(h.PID)+" ") {
						t.Errorf("%s: %s", when, line)
					}
				}
			}
		}
		r.sweep()
		mine("after b opened and a sweep", wa)
		mine("after a sweep", wb)
		since := time.Now()
		a.kill()
		wa.gone(since, grace+5*time.Second)
		la.recordEnded("after a's death")
		r.owner()
		mine("after a's death and a third owner", wb)
		if a := b.ask(request{Do: "close"}); a.Err != "" {
			t.Errorf("close: %s", a.Err)
		}
		wb.gone(time.Now(), time.Second)
		lb.recordEnded("after b closed")
	})
}

// Two sweepers at once: each launch is swept once.
func TestTwoSweepers(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		log := r.file("log")
		c := r.owner()
		var launches []*started
		for range 3 {
			launches = append(launches, c.start(spec{Args: r.prog("siglog", "-log", log, "-n", "1"), TempDirs: []string{"PROFILE"}}))
		}
		w := r.watch(6)
		c.killWithHelpers()
		since := time.Now()
		reports := make([]custody.SweepReport, 4)
		var wg sync.WaitGroup
		for i := range reports {
			wg.Go(func() { reports[i] = r.sweep() })
		}
		wg.Wait()
		w.gone(since, grace+5*time.Second)
		freed := map[string]int{}
		for _, rep := range reports {
			for _, l := range rep.Launches {
				if l.Outcome != "gone" {
					t.Errorf("swept: %+v", l)
				}
				freed[l.ID.String()] += len(l.Freed)
			}
		}
		for _, l := range launches {
			if freed[l.id] != 1 {
				t.Errorf("launch %s was freed %d times", l.id, freed[l.id])
			}
		}
		got := map[string]int{}
		for _, line := range signals(t, log) {
			got[line]++
		}
		for _, h := range w.all {
			if n := got[h.Role+" "+itoa(h.PID)+" TERM"]; n != 1 {
				t.Errorf("%s got TERM %d times", h, n)
			}
		}
		r.noTemp()
	})
}

// sweepBelow runs a sweep below another command.
func (r *rig) sweepBelow(before ...string) custody.SweepReport {
	r.t.Helper()
	out, code := r.below(before, "sweep", "--json")
	var rep custody.SweepReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		r.t.Errorf("sweep: exit %d, %v: %s", code, err, out)
	}
	return rep
}

// below runs custody below another command.
func (r *rig) below(before []string, args ...string) (stdout string, code int) {
	r.t.Helper()
	bare := r.command(args...)
	argv := append(append([]string{}, before...), bare.Args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = bare.Env
	b, _ := cmd.Output() // and what it complained of
	return string(b), exitCode(cmd)
}

func readRecord(t *testing.T, file string) *ledger.Record {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := ledger.DecodeRecord(b)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

var wallTime = regexp.MustCompile(`"20\d\d-[^"]*Z"`)

// shiftTimes moves every wall time in a file, and returns how many there were.
func shiftTimes(t *testing.T, file string, by time.Duration) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	out := wallTime.ReplaceAllFunc(b, func(old []byte) []byte {
		n++
		at, err := time.Parse(time.RFC3339Nano, strings.Trim(string(old), `"`))
		if err != nil {
			t.Fatal(err)
		}
		return []byte(`"` + at.Add(by).Format(time.RFC3339Nano) + `"`)
	})
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return n
}
