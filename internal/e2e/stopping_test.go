//go:build linux

// Stopping: who gets which signal, in which order and how often, and what is
// said of those that will not end.

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/tree"
	"golang.org/x/sys/unix"
)

// A stopped process never handles TERM and so is always killed hard.
func TestC37_StoppedShell(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		file := r.file("goodbye")
		l := r.owner().start(spec{Args: r.prog("trap-stop", "-file", file), Phases: []string{"TERM:10s", "KILL:5s"}})
		w := r.watch(2)
		w.gone(l.pull(by), 8*time.Second) // without KILL
		if b, err := os.ReadFile(file); err != nil || string(b) != "bye\n" {
			t.Errorf("goodbye %q, %v", b, err)
		}
	})
}

// The same where the stopped shell is the leader; TERM comes before CONT.
func TestC37_StoppedLeader(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		file := r.file("goodbye")
		l := r.owner().start(spec{Args: []string{"sh", "-c",
			`trap 'echo bye >"$0"; exit 0' TERM; kill -STOP $$; while :; do sleep 0.1; done`, file}, Phases: []string{"TERM:10s", "KILL:5s"}})
		var row host.Row
		until(t, "the shell is stopped", func() bool {
			var err error
			row, err = stat(l.PID)
			return err == nil && row.State == 'T'
		})
		w := &watch{t: t, file: r.file("none"), all: []handle{openExactly(procOf(row))}}
		defer w.all[0].close()
		a := l.ask(request{Do: "stop"})
		if a.Err != "" {
			t.Fatal(a.Err)
		}
		var got []string
		for _, s := range a.Results[0].Signals {
			if s.PID == l.PID {
				got = append(got, s.Signal)
			}
		}
		if len(got) < 2 || got[0] != "TERM" || got[1] != "CONT" || slices.Contains(got, "KILL") {
			t.Errorf("signals %v", got)
		}
		if a := l.ask(request{Do: "wait"}); a.Code != 0 || a.Signal != "" {
			t.Errorf("wait: %+v", a)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != "bye\n" {
			t.Errorf("goodbye %q, %v", b, err)
		}
	})
}

// A stopped child in a session of its own, and leader stopped too.
func TestC37_StoppedEscapee(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		l := r.owner().start(spec{Args: r.prog("stopped", "-setsid", "-leader")})
		w := r.watch(2)
		w.gone(l.pull(by), grace+5*time.Second)
	})
}

// Only the first child gets TERM and adopted daemons are killed without a word.
func TestC37_Daemons(t *testing.T) {
	eachTrigger(t, levels, triggers, func(t *testing.T, r *rig, by trigger) {
		log := r.file("log")
		l := r.owner().start(spec{Args: r.prog("siglog", "-log", log, "-n", "2", "-double-fork")})
		w := r.watch(5)
		since := l.pull(by)
		w.gone(since, grace+5*time.Second)
		if took := time.Since(since); took < grace {
			t.Errorf("killed after %v, before the grace was over", took)
		}
		got := signals(t, log)
		for _, h := range w.all {
			if h.Role == "starter" {
				continue
			}
			if n := count(got, h.Role+" "+itoa(h.PID)+" TERM"); n != 1 {
				t.Errorf("%s got TERM %d times: %q", h, n, got)
			}
		}
	})
}

func count(list []string, what string) (n int) {
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

// thaw undoes a freeze whose program was killed: a frozen file system would
// hold up whatever touches it for good.
func thaw(mount string) {
	const fiThaw = 0xC0045878 // FITHAW, <linux/fs.h>
	if fd, err := unix.Open(mount, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		unix.IoctlSetInt(fd, fiThaw, 0)
		unix.Close(fd)
	}
	unix.Unmount(mount, unix.MNT_DETACH)
}

// A process in an uninterruptible wait outlives KILL; stop hangs for ever, or a
// second copy is started beside it.
func TestC44_Uninterruptible(t *testing.T) {
	needRoot(t)
	each(t, levels, func(t *testing.T, r *rig) {
		mount := r.file("mount")
		fs := exec.Command(self(), tree.Command("frozen-fs", "-pids", r.file("fs"), "-dir", mount, "-life", "40s")[1:]...)
		fs.Stderr = os.Stderr
		if err := fs.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fs.Process.Kill(); fs.Wait(); thaw(mount) })
		frozen := r.watchIn("fs", 2)
		c := r.owner()
		sp := spec{Args: r.prog("d-writer", "-dir", mount), Name: "writer", TempDirs: []string{"PROFILE"}, Phases: []string{"TERM:1s", "KILL:2s"}}
		l := c.start(sp)
		w := r.watch(2)
		writer := w.role("writer")
		until(t, "the writer waits", func() bool {
			row, err := stat(writer.PID)
			return err == nil && row.State == 'D'
		})
		since := time.Now()
		a := l.ask(request{Do: "stop"})
		if took := time.Since(since); took > grace+5*time.Second {
			t.Errorf("stop took %v", took)
		}
		if !slices.Contains(a.Is, "incomplete") || len(a.Results) != 1 || len(a.Results[0].Survivors) != 1 {
			t.Fatalf("stop: %+v", a)
		}
		if s := a.Results[0].Survivors[0]; s.PID != writer.PID || !strings.Contains(s.Why, "still alive: state D") {
			t.Errorf("survivor: %+v", s)
		}
		w.alive("after the stop", "writer")
		l.recordKept("while it lives")
		if missing(l.Dirs[0]) {
			t.Error("the directory is freed while the writer lives")
		}
		sp.Kept = r.lv.kept
		if a := c.ask(request{Do: "start", Spec: sp}); !slices.Contains(a.Is, "name") {
			t.Errorf("a second start under the name: %+v", a)
		}
		frozen.role("leader").signal(syscall.SIGTERM) // the thaw
		if !writer.ends(20 * time.Second) {
			t.Fatal("the writer does not end")
		}
		if a := l.ask(request{Do: "stop"}); a.Err != "" || a.Results[0].Outcome != "gone" {
			t.Errorf("stop after the thaw: %+v", a)
		}
		l.recordEnded("after the thaw")
		r.noTemp()
	})
}

// The same with the owner dead: a sweep says what lives, and the record stays
// for the next one.
func TestC44_UninterruptibleSwept(t *testing.T) {
	needRoot(t)
	each(t, []level{group, lineage}, func(t *testing.T, r *rig) {
		mount := r.file("mount")
		fs := exec.Command(self(), tree.Command("frozen-fs", "-pids", r.file("fs"), "-dir", mount, "-life", "40s")[1:]...)
		if err := fs.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fs.Process.Kill(); fs.Wait(); thaw(mount) })
		frozen := r.watchIn("fs", 2)
		l := r.owner().start(spec{Args: r.prog("d-writer", "-dir", mount), TempDirs: []string{"PROFILE"}, Phases: []string{"TERM:1s", "KILL:2s"}})
		w := r.watch(2)
		writer := w.role("writer")
		until(t, "the writer waits", func() bool {
			row, err := stat(writer.PID)
			return err == nil && row.State == 'D'
		})
		l.c.killWithHelpers()
		rep := r.sweep()
		if n := rep.Incomplete(); len(n) != 1 || len(n[0].Survivors) != 1 || !strings.Contains(n[0].Survivors[0].Why, "state D") {
			t.Errorf("sweep: %+v", rep)
		}
		l.recordKept("while it lives")
		if missing(l.Dirs[0]) {
			t.Error("the directory is freed while the writer lives")
		}
		frozen.role("leader").signal(syscall.SIGTERM)
		writer.ends(20 * time.Second)
		l.sweptIn(r.sweep())
		l.recordEnded("after the thaw")
		r.noTemp()
	})
}

// One tree with a member of every difficult kind: none is left within two
// seconds of the owner's death. Alone, since the time counts.
func TestMixed(t *testing.T) {
	for _, lv := range possible(t, []level{lineage, cgroupDirect, cgroupKept}) {
		t.Run(lv.name, func(t *testing.T) {
			r := newRig(t, lv)
			l := r.owner().start(spec{Args: r.prog("mixed"), DefaultPlan: true})
			w := r.watch(8)
			w.gone(l.pull(ownerDied), 2*time.Second)
			l.recordEnded("at the end")
		})
	}
}

// At level group without the mark: what is in the group ends, what left it is
// not claimed, and named if anything speaks for it.
func TestMixedGroup(t *testing.T) {
	noMark := level{"no-mark", false, "cgroup,brand", "group"}
	eachTrigger(t, []level{noMark}, triggers, func(t *testing.T, r *rig, by trigger) {
		l := r.owner().start(spec{Args: r.prog("mixed")})
		w := r.watch(8)
		since := l.pull(by)
		for _, h := range w.all {
			if h.Role != "daemon" && !h.ends(time.Until(since.Add(grace+5*time.Second))) {
				t.Errorf("%s lives", h)
			}
		}
		w.alive("at the end", "daemon")
		l.recordEnded("at the end")
	})
	t.Run("named", func(t *testing.T) {
		eachTrigger(t, []level{noMark}, []trigger{bothSwept}, func(t *testing.T, r *rig, by trigger) {
			l := r.owner().start(spec{Args: r.prog("double-fork", "-clear-env=false"), TempDirs: []string{"PROFILE"}})
			w := r.watch(3)
			l.c.killWithHelpers()
			rep := r.sweep()
			n := rep.Incomplete()
			if len(n) != 1 || len(n[0].Survivors) != 1 || n[0].Survivors[0].PID != w.role("daemon").PID {
				t.Fatalf("sweep: %+v", rep)
			}
			w.alive("after the sweep", "daemon")
			if !w.role("leader").ends(5 * time.Second) {
				t.Error("the leader lives")
			}
			l.recordKept("while the daemon lives")
			if missing(l.Dirs[0]) {
				t.Error("the directory is freed under a suspect")
			}
			w.role("daemon").signal(syscall.SIGKILL)
			w.role("daemon").ends(5 * time.Second)
			l.sweptIn(r.sweep())
			r.noTemp()
		})
	})
}

// The leader is dead and reaped and its group lives on: the leader's durable
// handle still stands for the group, and nothing else does here.
func TestLeaderReaped(t *testing.T) {
	noMark := level{"no-mark", false, "cgroup,brand", "group"}
	eachTrigger(t, []level{noMark, lineage}, triggers, func(t *testing.T, r *rig, by trigger) {
		l := r.owner().start(spec{Args: r.prog("leader-dies", "-leader", "exit", "-ignore", "TERM"), Linger: true, TempDirs: []string{"PROFILE"}})
		w := r.watch(4)
		l.ask(request{Do: "wait"})
		until(t, "the leader is reaped", func() bool { _, err := stat(l.PID); return err != nil })
		w.gone(l.pull(by), grace+5*time.Second)
		l.recordEnded("at the end")
		r.noTemp()
	})
}

// Without the durable handle the group's number proves nothing: nobody is
// signalled, and the record stays.
func TestNoHandle(t *testing.T) {
	older := level{"older-kernel", false, "cgroup,brand,handle", "group"}
	each(t, []level{older}, func(t *testing.T, r *rig) {
		l := r.owner().start(spec{Args: r.prog("leader-dies", "-leader", "exit"), Linger: true, TempDirs: []string{"PROFILE"}})
		w := r.watch(4)
		l.ask(request{Do: "wait"})
		until(t, "the leader is reaped", func() bool { _, err := stat(l.PID); return err != nil })
		l.c.killWithHelpers()
		rep := r.sweep()
		if n := rep.Incomplete(); len(n) != 1 || len(n[0].Signalled) > 0 {
			t.Errorf("sweep: %+v", rep)
		}
		w.alive("after the sweep", "member")
		l.recordKept("while the members live")
		if missing(l.Dirs[0]) {
			t.Error("the directory is freed under suspects")
		}
	})
}

// Each phase is sent once, however many stop the launch.
func TestPhasesOnce(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		log, hook := r.file("log"), r.file("hook")
		l := r.owner().start(spec{Args: r.prog("siglog", "-log", log, "-n", "2"), HookFile: hook,
			Phases: []string{"INT:500ms", "TERM:500ms", "KILL:5s"}})
		w := r.watch(3)
		since := time.Now()
		a := l.ask(request{Do: "stop", Times: 10})
		if a.Err != "" || len(a.Results) != 10 {
			t.Fatalf("stop: %+v", a)
		}
		for _, res := range a.Results {
			if res.Outcome != "gone" || len(res.Signalled) != len(a.Results[0].Signalled) {
				t.Errorf("results differ: %+v", res)
			}
		}
		w.gone(since, grace+5*time.Second)
		if missing(hook) {
			t.Error("the hook did not run")
		}
		got := signals(t, log)
		for _, h := range w.all {
			for _, sig := range []string{"INT", "TERM"} {
				if n := count(got, h.Role+" "+itoa(h.PID)+" "+sig); n != 1 {
					t.Errorf("%s got %s %d times", h, sig, n)
				}
			}
		}
		if len(got) != 6 {
			t.Errorf("signals %q", got)
		}
	})
}

// A member that may not be signalled: incomplete, with the reason, and the
// record stays.
func TestAnotherUsers(t *testing.T) {
	needRoot(t)
	for _, lv := range []level{group, lineage} {
		t.Run(lv.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, lv)
			suid := r.nobody()
			c := r.ownerBy(opening{}, nil, func(cmd *exec.Cmd) {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUID, Gid: nobodyUID}}
			})
			l := c.start(spec{Args: append([]string{suid, "e2e:as-root"}, r.prog("sleep")...), TempDirs: []string{"PROFILE"}})
			w := r.watch(1)
			a := l.ask(request{Do: "stop"})
			if !slices.Contains(a.Is, "incomplete") || len(a.Results[0].Survivors) != 1 {
				t.Fatalf("stop: %+v", a)
			}
			if s := a.Results[0].Survivors[0]; s.PID != w.all[0].PID || !strings.Contains(s.Why, "may not be signalled") || !strings.Contains(s.Why, "not permitted") {
				t.Errorf("survivor: %+v", s)
			}
			w.alive("after the stop")
			l.recordKept("while it lives")
			if missing(l.Dirs[0]) {
				t.Error("the directory is freed while it lives")
			}
			w.all[0].signal(syscall.SIGKILL)
			w.all[0].ends(10 * time.Second)
			if a := l.ask(request{Do: "stop"}); a.Err != "" {
				t.Errorf("stop after its end: %s", a.Err)
			}
			l.recordEnded("at the end")
			r.noTemp()
		})
	}
}

const nobodyUID = 65534

// nobody gives the rig to an ordinary user, with a copy of the test binary that
// user may execute. It returns a set-uid copy.
func (r *rig) nobody() (suid string) {
	r.t.Helper()
	b, err := os.ReadFile(self())
	if err != nil {
		r.t.Fatal(err)
	}
	root := filepath.Dir(r.dir)
	r.bin, suid = filepath.Join(root, "e2e.test"), filepath.Join(root, "e2e.suid")
	for path, mode := range map[string]os.FileMode{r.bin: 0o755, suid: 0o755 | os.ModeSetuid} {
		if err := os.WriteFile(path, b, 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			r.t.Fatal(err)
		}
	}
	os.Chmod(root, 0o755)
	for _, d := range []string{r.state, r.tmp, r.dir} {
		if err := os.Chown(d, nobodyUID, nobodyUID); err != nil {
			r.t.Fatal(err)
		}
	}
	return suid
}
