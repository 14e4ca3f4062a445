//go:build linux

// Leaks: after a crash, a restart, or a normal end.

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/host"
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

// The same for the command line: custody itself is killed.
func TestC02_CommandKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, lineage)
	cmd := r.command(append([]string{"run", "--temp-dir", "PROFILE", "--"}, r.prog("setsid-escapee", "-ignore", "TERM")...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := r.watch(2)
	since := time.Now()
	cmd.Process.Kill()
	cmd.Wait()
	w.gone(since, 5*time.Second)
	r.noTemp()
}

// A server takes no notice of the end of its input; over a thousand copies are
// found after some days.
func TestC03_DeafToEOF(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("eof-deaf", "-ignore", "TERM"), InPipe: true})
		w := r.watch(2)
		since := time.Now()
		c.later(request{Do: "return"}) // from main, no stop is called
		w.gone(since, grace+5*time.Second)
		l.recordEnded("at the end")
	})
}

// Closing the input is a request: who heeds it ends by itself.
func TestC03_HeedsEOF(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		c := r.owner()
		l := c.start(spec{Args: []string{"sh", "-c", "while read x; do :; done; exit 0"}, InPipe: true})
		l.ask(request{Do: "closeinput"})
		if a := l.ask(request{Do: "wait"}); a.Err != "" || a.Code != 0 {
			t.Errorf("wait: %+v", a)
		}
		if a := l.ask(request{Do: "gone", Within: 20 * time.Second}); a.Err != "" || len(a.Results[0].Signalled) > 0 {
			t.Errorf("gone: %+v", a)
		}
		for _, e := range l.ask(request{Do: "events"}).Events {
			if e.Signal != "" {
				t.Errorf("signal: %+v", e)
			}
		}
		cmd := r.command("run", "--", "sh", "-c", "while read x; do :; done; exit 0")
		cmd.Stdin = strings.NewReader("x\n")
		if err := cmd.Run(); err != nil {
			t.Errorf("custody run: %v", err)
		}
	})
}

// After a successful run the rest of the group lives on, and escalation never
// runs since the leader was collected already.
func TestC05_LeaderSucceeds(t *testing.T) {
	for name, prog := range map[string][]string{
		"deaf-group":  {"leader-dies", "-code", "0", "-after", "300ms", "-ignore", "TERM,INT"},
		"pipe-holder": {"pipe-holder", "-code", "0", "-after", "300ms", "-setsid", "-ignore", "TERM"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, levels, func(t *testing.T, r *rig) {
				c := r.owner()
				l := c.start(spec{Args: r.prog(prog[0], prog[1:]...), Out: "buffer"})
				w := r.watch(3)
				a := l.ask(request{Do: "wait"})
				if a.Err != "" || a.Code != 0 || a.Signal != "" {
					t.Errorf("wait: %+v", a)
				}
				w.gone(time.Now(), grace+5*time.Second)
				if a := l.ask(request{Do: "gone", Within: 10 * time.Second}); a.Err != "" || a.Results[0].Outcome != "gone" {
					t.Errorf("gone: %+v", a)
				}
				l.recordEnded("at the end")
			})
		})
	}
}

// Descendants may stay, if that was asked for: alive and recorded.
func TestC05_Linger(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("leader-dies", "-code", "0", "-ignore", "TERM,INT"), Linger: true})
		w := r.watch(4)
		if a := l.ask(request{Do: "wait"}); a.Err != "" || a.Code != 0 {
			t.Errorf("wait: %+v", a)
		}
		time.Sleep(2 * time.Second)
		w.alive("after the leader's end", "member")
		l.recordKept("after the leader's end")
		if ms := l.ask(request{Do: "members"}).Members; len(ms) != 3 {
			t.Errorf("members: %+v", ms)
		}
		w.gone(l.pull(by), grace+5*time.Second)
		l.recordEnded("at the end")
	})
}

// Workers leave the launcher's tree while it runs, so a walk from parent to
// child never sees them.
func TestC06_DoubleFork(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		l := r.owner().start(spec{Args: r.prog("double-fork", "-ignore", "TERM")})
		w := r.watch(3)
		w.alive("before", "daemon", "leader")
		w.gone(l.pull(by), 5*time.Second)
		l.recordEnded("at the end")
	})
}

// A child leaves the cgroup but not the lineage.
func TestC06_CgroupMove(t *testing.T) {
	needRoot(t)
	eachTrigger(t, []level{cgroupDirect, cgroupKept}, triggers, func(t *testing.T, r *rig, by trigger) {
		l := r.owner().start(spec{Args: r.prog("cgroup-move", "-to", r.otherCgroup(), "-ignore", "TERM")})
		w := r.watch(2)
		w.gone(l.pull(by), 5*time.Second)
		l.recordEnded("at the end")
	})
}

// A wrapper relays no signal: ending it orphans the work and hides its status.
func TestC10_Wrapper(t *testing.T) {
	for name, c := range map[string]struct {
		prog func(r *rig, log string) []string
		n    int
		role string
		code int
	}{
		"wrapped": {func(r *rig, log string) []string {
			return r.prog("wrapper", append([]string{"-depth", "2", "--"}, r.prog("siglog", "-log", log, "-n", "0", "-exit-on", "TERM")...)...)
		}, 3, "leader", 143},
		"alone": {func(r *rig, log string) []string {
			return r.prog("siglog", "-log", log, "-n", "1", "-exit-on", "TERM")
		}, 2, "leader", 143},
		"code": {func(r *rig, log string) []string {
			return r.prog("siglog", "-log", log, "-n", "1", "-exit-on", "TERM", "-code", "7")
		}, 2, "leader", 7},
		"deaf": {func(r *rig, log string) []string {
			return r.prog("siglog", "-log", log, "-n", "2")
		}, 3, "leader", 137},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, []level{lineage, cgroupKept}, func(t *testing.T, r *rig) {
				log := r.file("log")
				cmd := r.command(append([]string{"run", "--phase", "TERM:1s", "--phase", "KILL:5s", "--"}, c.prog(r, log)...)...)
				var errs bytes.Buffer
				cmd.Stderr = &errs
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				w := r.watch(c.n)
				since := time.Now()
				cmd.Process.Signal(syscall.SIGTERM)
				cmd.Wait()
				if got := exitCode(cmd); got != c.code {
					t.Errorf("exit %d, want %d: %s", got, c.code, errs.String())
				}
				w.gone(since, grace+5*time.Second)
				got := map[string]int{}
				for _, line := range signals(t, log) {
					got[line]++
				}
				if line := c.role + " " + itoa(w.role(c.role).PID) + " TERM"; got[line] != 1 {
					t.Errorf("%q is not there once: %v", line, got)
				}
				for line, n := range got {
					if n != 1 || !strings.HasSuffix(line, " TERM") {
						t.Errorf("%q %d times", line, n)
					}
				}
			})
		})
	}
}

// The old server is a zombie that nobody collects; signal 0 says it is there,
// so the client waits for ever.
func TestC13_Zombie(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		adopter := r.adopter(nil)
		l := adopter.start(spec{Args: r.prog("unreaped"), TempDirs: []string{"PROFILE"}, Phases: []string{"TERM:15s", "KILL:15s"}})
		w := r.watch(4)
		w.elder = true
		adopter.killWithHelpers()
		// Its dead children go to the adopter, who collects nothing, and so
		// does the leader.
		leader := w.role("leader")
		leader.signal(syscall.SIGKILL)
		leader.ends(10 * time.Second)
		if row, err := stat(leader.PID); err != nil || row.State != 'Z' || row.PPID != adopter.cmd.Process.Pid {
			t.Fatalf("the leader is no zombie of the adopter: %+v %v", row, err)
		}
		l.recordKept("before the stop")
		// Within a second of its own, however busy the machine is; and far from
		// the plan's first wait.
		stop := r.command("stop", "--json", l.id)
		since := time.Now()
		b, err := stop.Output()
		out, took := string(b), time.Since(since)
		if cpu := stop.ProcessState.UserTime() + stop.ProcessState.SystemTime(); err != nil || cpu > time.Second || took > 8*time.Second {
			t.Errorf("stop took %v, %v of it at work: %v: %s", took, cpu, err, out)
		}
		if strings.Contains(out, "KILL") {
			t.Errorf("a dead process was signalled: %s", out)
		}
		l.recordEnded("after the stop")
		r.noTemp()
	})
}

// The same on the live handle: a member's dead children do not hold up a stop.
func TestC13_ZombieMembers(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		l := r.owner().start(spec{Args: r.prog("unreaped", "-n", "5"), TempDirs: []string{"PROFILE"}})
		w := r.watch(6)
		since := l.pull(by)
		w.gone(since, 5*time.Second)
		r.noTemp()
	})
}

// A program inside the tree adopts and never collects; a sweep elsewhere flags
// its live grandchildren as orphans.
func TestC15_InnerAdopter(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		l := r.owner().start(spec{Args: r.prog("subreaper-child")})
		w := r.watch(7)
		r.unflagged(w, "grandchild", "reaper", "leader")
		w.gone(l.pull(by), grace+5*time.Second)
	})
}

// An owner inside the owner: it gets TERM first and its grace, in which it
// removes its own record.
func TestC15_InnerOwner(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		inner := r.file("inner.record")
		l := r.owner().start(spec{Args: r.prog("nested-owner", "-file", inner)})
		w := r.watch(5)
		r.unflagged(w, "worker", "orphan", "inner", "leader")
		w.gone(l.pull(by), grace+5*time.Second)
		if _, err := os.Stat(inner); err == nil {
			t.Error("the inner owner did not get to remove its record")
		}
	})
}

// If the inner owner is killed, what climbs up is ended with the tree.
func TestC15_InnerOwnerKilled(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		l := r.owner().start(spec{Args: r.prog("nested-owner", "-file", r.file("inner.record"))})
		w := r.watch(5)
		w.role("inner").signal(syscall.SIGKILL)
		w.role("inner").ends(10 * time.Second)
		w.gone(l.pull(by), grace+5*time.Second)
	})
}

// unflagged says that nothing is found fault with while the tree runs.
func (r *rig) unflagged(w *watch, roles ...string) {
	r.t.Helper()
	for range 3 {
		rep := r.sweep()
		if len(rep.Launches)+len(rep.SetAside) > 0 || rep.LiveOwners != 1 {
			r.t.Errorf("sweep beside a live owner: %+v", rep)
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, l := range r.ls() {
		if l.State != "running" || len(l.Suspects) > 0 || len(l.Members) != len(w.living()) {
			r.t.Errorf("ls: %s, %d members of %d, %d suspects", l.State, len(l.Members), len(w.living()), len(l.Suspects))
		}
	}
	w.alive("while it runs", roles...)
}

// adopter starts an owner below a program that adopts and never collects.
func (r *rig) adopter(log *string) *client {
	r.t.Helper()
	file := r.file("adopter.log")
	if log != nil {
		*log = file
	}
	life, end, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { end.Close() })
	c := r.ownerBy(opening{}, []string{self(), "e2e:adopter", file}, func(cmd *exec.Cmd) {
		cmd.ExtraFiles = []*os.File{life}
	})
	life.Close()
	return c
}

// On a busy machine the leader forks before it could be marked: what it forked
// is of the tree all the same.
func TestC06_ForkedBeforeMark(t *testing.T) {
	eachTrigger(t, []level{group}, []trigger{bothSwept}, func(t *testing.T, r *rig, by trigger) {
		r.env, r.hasty = []string{"CUSTODY_TEST_PAUSE=after-fork"}, true
		l := r.owner().start(spec{Args: r.prog("setsid-escapee", "-clear-env", "-ignore", "TERM")})
		w := r.watch(2)
		// Nothing but the mark is left to know the escapee by.
		w.role("leader").signal(syscall.SIGSTOP)
		l.c.killWithHelpers()
		w.role("leader").signal(syscall.SIGKILL)
		since := time.Now()
		l.sweptIn(r.sweep())
		w.gone(since, 5*time.Second)
	})
}

// The only one left is the child that left the cgroup: an empty cgroup is no
// proof that all are gone.
func TestC06_CgroupMovedAlone(t *testing.T) {
	needRoot(t)
	for _, how := range []string{"same-session", "own-session"} {
		t.Run(how, func(t *testing.T) {
			eachTrigger(t, []level{cgroupDirect, cgroupKept}, []trigger{ownerDied, bothSwept, bothOpened}, func(t *testing.T, r *rig, by trigger) {
				moved := r.prog("cgroup-move", "-role", "moved", "-to", r.otherCgroup(), "-ignore", "TERM")
				script := `"$@" & wait`
				if how == "own-session" {
					script = `setsid "$@" & wait`
				}
				l := r.owner().start(spec{Args: append([]string{"/bin/sh", "-c", onceMarked + script, "sh"}, moved...), Linger: true, TempDirs: []string{"PROFILE"}})
				w := r.watch(1)
				g := guard(t, w, l.Dirs[0])
				row, err := stat(l.PID)
				if err != nil {
					t.Fatal(err)
				}
				openExactly(procOf(row)).signal(syscall.SIGKILL)
				if a := l.ask(request{Do: "wait"}); a.Signal != "KILL" {
					t.Errorf("wait: %+v", a)
				}
				w.gone(l.pull(by), 5*time.Second)
				g.freed()
				l.recordEnded("at the end")
			})
		})
	}
}

// otherCgroup makes a cgroup that is no launch's.
func (r *rig) otherCgroup() string {
	r.t.Helper()
	base, err := host.CgroupBase()
	if err != nil {
		r.t.Fatal(err)
	}
	dir := filepath.Join(base, filepath.Base(filepath.Dir(r.dir)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		until(r.t, "the other cgroup is empty", func() bool { return syscall.Rmdir(dir) == nil })
	})
	return dir
}

// The same where the launch owns nothing that would have to be freed.
func TestC06_CgroupMovedWithoutAssets(t *testing.T) {
	needRoot(t)
	eachTrigger(t, []level{cgroupDirect, cgroupKept}, []trigger{bothSwept, bothOpened}, func(t *testing.T, r *rig, by trigger) {
		moved := r.prog("cgroup-move", "-role", "moved", "-to", r.otherCgroup(), "-ignore", "TERM")
		l := r.owner().start(spec{Args: append([]string{"/bin/sh", "-c", onceMarked + `setsid "$@" & wait`, "sh"}, moved...), Linger: true})
		w := r.watch(1)
		row, err := stat(l.PID)
		if err != nil {
			t.Fatal(err)
		}
		openExactly(procOf(row)).signal(syscall.SIGKILL)
		l.ask(request{Do: "wait"})
		w.gone(l.pull(by), 5*time.Second)
		l.recordEnded("at the end")
	})
}

// A sweep is busy with one owner while another one starts a launch and dies:
// what it knew of the processes before says nothing of that launch.
func TestSweepOutlastsAnOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t, group)
	slow := r.ownerOf(opening{Scope: "aa"})
	slow.start(spec{Args: r.progIn("slow", "term-ignore"), Phases: []string{"TERM:4s", "KILL:5s"}})
	ws := r.watchIn("slow", 3)
	over := r.ownerOf(opening{Scope: "a"})
	over.start(spec{Args: r.progIn("over", "sleep")})
	wo := r.watchIn("over", 1)
	late := r.ownerOf(opening{Scope: "b"})
	over.killWithHelpers()
	wo.all[0].signal(syscall.SIGKILL)
	slow.killWithHelpers()
	cmd := r.command("sweep", "--json")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	l := late.start(spec{Args: r.prog("setsid-escapee", "-ignore", "TERM"), Linger: true})
	w := r.watch(2)
	w.role("leader").signal(syscall.SIGKILL)
	l.ask(request{Do: "wait"})
	late.killWithHelpers()
	cmd.Wait()
	for _, h := range ws.all {
		if !h.ends(0) {
			t.Errorf("the sweep left %s", h)
		}
	}
	known := false
	for _, x := range r.ls() {
		known = known || x.ID.String() == l.id
	}
	if !known && len(w.living()) > 0 {
		t.Errorf("the record ended, and %v lives", w.living())
	}
	since := time.Now()
	r.sweep()
	w.gone(since, 5*time.Second)
}
