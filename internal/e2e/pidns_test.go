//go:build linux

// A PID namespace of the launch's own.

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/tree"
	"golang.org/x/sys/unix"
)

var pidns = level{"pidns", true, "", "pidns"}

// inside opens the members of a launch from outside; in there they have other
// numbers.
func (r *rig) inside(l *started, n int) *watch {
	r.t.Helper()
	r.watch(n) // announced, whatever their numbers
	w := &watch{t: r.t, file: r.file("pids")}
	for _, x := range r.ls() {
		if x.ID.String() != l.id {
			continue
		}
		for _, m := range x.Members {
			row, err := stat(m.PID)
			if err != nil {
				continue
			}
			w.all = append(w.all, openExactly(tree.Proc{Role: strings.Join(m.Command, " "), PID: m.PID, Start: row.Start}))
		}
	}
	if len(w.all) < n {
		r.t.Fatalf("%d members seen, want at least %d", len(w.all), n)
	}
	return w
}

// A tree with every kind of refusal and escape ends with its namespace.
func TestNamespace_Mixed(t *testing.T) {
	eachTrigger(t, []level{pidns}, triggers, func(t *testing.T, r *rig, by trigger) {
		c := r.owner()
		l := c.start(spec{Args: r.prog("mixed"), Require: "pidns", TempDirs: []string{"PROFILE"}})
		w := r.inside(l, 7)
		since := l.pull(by)
		for _, h := range w.all {
			if !h.ends(time.Until(since.Add(grace + 5*time.Second))) {
				t.Errorf("%s lives", h)
			}
		}
		r.noTemp()
		l.recordEnded("at the end")
	})
}

// The command's own end is told, and what it left gets the catchable phase
// before the namespace is closed on it.
func TestNamespace_LeaderEnds(t *testing.T) {
	each(t, []level{pidns}, func(t *testing.T, r *rig) {
		c := r.owner()
		bye := r.file("bye")
		script := `sh -c 'trap "echo bye >` + bye + `; exit" TERM; while :; do sleep 0.1; done' & sleep 0.3; exit 7`
		l := c.start(spec{Args: []string{"sh", "-c", script}, Require: "pidns"})
		if a := l.ask(request{Do: "wait"}); a.Code != 7 {
			t.Errorf("wait: %+v", a)
		}
		if a := l.ask(request{Do: "gone", Within: 20 * time.Second}); a.Err != "" {
			t.Errorf("gone: %+v", a)
		}
		if got := lines(t, bye); len(got) != 1 || got[0] != "bye" {
			t.Errorf("the handler of TERM left %q", got)
		}
		l = c.start(spec{Args: []string{"sh", "-c", "kill -SEGV $$"}, Require: "pidns"})
		if a := l.ask(request{Do: "wait"}); a.Signal != "SEGV" {
			t.Errorf("wait: %+v", a)
		}
	})
}

// An owner that sits in a cgroup that was once killed would have its children
// killed at birth: they enter their own cgroup another way, or do without.
func TestCgroup_OnceKilled(t *testing.T) {
	needRoot(t)
	t.Parallel()
	for _, lv := range []level{{"direct", false, "", "group"}, {"kept", true, "", "cgroup"}} {
		t.Run(lv.name, func(t *testing.T) {
			r := newRig(t, lv)
			dir := killedCgroup(t)
			c := r.ownerBy(opening{}, []string{"sh", "-c", `echo $$ > ` + filepath.Join(dir, "cgroup.procs") + `; exec "$@"`, "sh"}, nil)
			l := c.start(spec{Args: r.prog("mixed")})
			w := r.watch(8)
			w.alive("after the start", "leader", "deaf", "daemon")
			since := l.pull(stopped)
			if lv.kept {
				w.gone(since, grace+5*time.Second)
			}
			c.kill()
		})
	}
}

// killedCgroup makes a cgroup and kills it once.
func killedCgroup(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, " - cgroup2 ") {
			continue
		}
		dir, err := os.MkdirTemp(strings.Fields(line)[4], "once-killed-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for range 100 {
				if unix.Rmdir(dir) == nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
		cmd := exec.Command("sh", "-c", "echo $$ > "+dir+"/cgroup.procs; exec sleep 30")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "the cgroup is populated", func() bool {
			b, _ := os.ReadFile(dir + "/cgroup.procs")
			return len(b) > 0
		})
		if err := os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		return dir
	}
	t.Fatal("no cgroup v2 mount")
	return ""
}

// An owner that is PID 1 of a container: its record is believed, and what it
// starts on the terminal's session ends with it.
func TestOwnerIsPID1(t *testing.T) {
	needRoot(t)
	each(t, []level{group, lineage, cgroupKept}, func(t *testing.T, r *rig) {
		c := r.ownerBy(opening{}, []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}, nil)
		l := c.start(spec{Args: []string{"sleep", "60"}, TempDirs: []string{"PROFILE"}})
		if a := l.ask(request{Do: "stop"}); a.Err != "" || a.Results[0].Outcome != "gone" {
			t.Errorf("stop: %+v", a)
		}
		r.noTemp()
		// And the command line: run as PID 1, with a sweep beside it.
		bin, err := custodyBinary()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", bin, "run", "--dir", r.state, "--",
			"sh", "-c", bin+" ls --dir "+r.state+" && "+bin+" sweep --dir "+r.state+"; exit 7")
		cmd.Env = r.environ()
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 7 || strings.Contains(string(out), "set aside") || !strings.Contains(string(out), "alive") {
			t.Errorf("run as PID 1: exit %d: %s", code, out)
		}
	})
}
