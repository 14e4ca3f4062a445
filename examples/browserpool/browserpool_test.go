//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"golang.org/x/sys/unix"
)

// The service is killed: within a second nothing of its browsers is left.
func TestNothingOutlivesAKilledService(t *testing.T) {
	me := os.Geteuid()
	for _, s := range []setup{
		{browser: "firefox-esr", n: 5, uid: me},
		{browser: "chromium", n: 5, uid: me},
		{browser: "firefox-esr", n: 2, uid: me, without: "cgroup", level: "lineage"},
		{browser: "chromium", n: 2, uid: me, without: "cgroup", level: "lineage"},
		{browser: "firefox-esr", n: 2, uid: nobody, level: "lineage"},
		{browser: "chromium", n: 2, uid: nobody, level: "lineage"},
		{browser: "firefox-esr", n: 1, uid: me, direct: true, level: "cgroup"},
		{browser: "chromium", n: 1, uid: me, direct: true, level: "cgroup"},
	} {
		t.Run(s.name(), func(t *testing.T) {
			s.possible(t)
			killed(t, s)
		})
	}
}

// killed kills the service as often as asked, or until it was fast enough: a
// second, which a machine busy with other work may miss three times. Three
// seconds are never allowed.
func killed(t *testing.T, s setup) {
	var processes, dirs []time.Duration
	for n := range max(*rounds, 3) {
		v := run(t, s)
		v.warm()
		time.Sleep(*settle)
		w := v.watch(v.list())
		w.holdEscaped()
		start := time.Now()
		v.cmd.Process.Kill()
		p, d := w.gone(start, 3*time.Second)
		v.wait()
		v.nothing(w)
		t.Logf("%d processes gone after %v, directories after %v", len(w.pids), p.Round(time.Millisecond), d.Round(time.Millisecond))
		processes, dirs = append(processes, p), append(dirs, d)
		if n+1 >= *rounds && slices.Min(dirs) < time.Second {
			break
		}
	}
	slices.Sort(processes)
	slices.Sort(dirs)
	if load := load(t); dirs[0] > time.Second && load < 4*float64(runtime.NumCPU()) {
		t.Errorf("took more than a second in each of %d rounds, at a load of %.1f", len(dirs), load)
	}
	t.Logf("median of %d: last process %v, last directory %v", len(dirs),
		processes[len(dirs)/2].Round(time.Millisecond), dirs[len(dirs)/2].Round(time.Millisecond))
}

// load returns the machine's load of the last minute.
func load(t *testing.T) (l float64) {
	t.Helper()
	b, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(b), &l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The service and its helpers are killed in the same instant: the browsers live
// on, and the next start ends them before it serves; or a sweep does.
func TestNextStartEndsWhatLivedOn(t *testing.T) {
	for _, s := range []setup{
		{browser: "firefox-esr", n: 2},
		{browser: "chromium", n: 2},
		{browser: "firefox-esr", n: 2, without: "cgroup", level: "lineage"},
		{browser: "chromium", n: 2, without: "cgroup", level: "lineage"},
		{browser: "chromium", n: 1, uid: nobody, level: "lineage"},
		{browser: "chromium", n: 1, direct: true, level: "cgroup"},
	} {
		if s.uid == 0 {
			s.uid = os.Geteuid()
		}
		t.Run("start-"+s.name(), func(t *testing.T) {
			s.possible(t)
			v, w := orphaned(t, s)
			s.dir, s.home = v.dir, v.home
			next := run(t, s)
			if live := w.alive(0); len(live) > 0 {
				t.Errorf("it serves, and of the last life there live %v", live)
			}
			if d := w.present(); len(d) > 0 {
				t.Errorf("it serves, and of the last life there are %q", d)
			}
			order(t, next.lines(), "signal launch=", "swept "+w.ids[0], "serving ", "started launch=")
			order(t, next.lines(), "swept "+w.ids[len(w.ids)-1]+": gone", "serving ")
			for _, l := range next.warm() {
				if slices.Contains(w.ids, l.ID.String()) {
					t.Errorf("launch %s is of the last life", l.ID)
				}
			}
			if tr := w.traces(); len(tr) > 0 {
				t.Errorf("traces of the last life: %q", tr)
			}
		})
		t.Run("sweep-"+s.name(), func(t *testing.T) {
			s.possible(t)
			v, w := orphaned(t, s)
			start := time.Now()
			out, err := v.sweeper().CombinedOutput()
			if err != nil {
				t.Fatalf("sweep: %v\n%s", err, out)
			}
			if live, dirs := w.alive(0), w.present(); len(live)+len(dirs) > 0 {
				t.Errorf("after a sweep there live %v, there are %q", live, dirs)
			}
			t.Logf("%d processes swept in %v", len(w.pids), time.Since(start).Round(time.Millisecond))
			v.nothing(w)
		})
	}
}

// orphaned returns the browsers of a service that died with all its helpers.
func orphaned(t *testing.T, s setup) (*service, *watch) {
	v := run(t, s)
	v.warm()
	w := v.watch(v.list())
	pids := append(v.helpers(), v.cmd.Process.Pid)
	if want := map[bool]int{false: s.n, true: 1}[s.direct]; len(pids) != want+1 {
		t.Fatalf("the service has helpers %v, want %d", pids[:len(pids)-1], want)
	}
	// Stopped first, so that none sees another's death.
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range pids {
			if err := syscall.Kill(pid, sig); err != nil { // the service is unreaped, its children too
				t.Fatalf("%v to %d: %v", sig, pid, err)
			}
		}
	}
	v.cmd.Process.Wait()
	time.Sleep(300 * time.Millisecond)
	for _, pid := range w.alive(0) {
		if w.main[pid] {
			return v, w
		}
	}
	t.Fatal("no browser lived on: nothing to test")
	return nil, nil
}

// order checks that the first line with each text comes after the one before.
func order(t *testing.T, lines []string, texts ...string) {
	t.Helper()
	last := -1
	for _, text := range texts {
		at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, text) })
		if at < 0 && text == texts[len(texts)-1] && len(texts) > 2 {
			continue // the last is only forbidden before the others
		}
		if at <= last {
			t.Errorf("%q is line %d of the log, not after line %d", text, at, last)
		}
		last = at
	}
}

// A clean stop says goodbye in the browser's own protocol.
func TestCleanStopSaysGoodbye(t *testing.T) {
	for _, browser := range []string{"firefox-esr", "chromium"} {
		t.Run(browser, func(t *testing.T) {
			v := run(t, setup{browser: browser, n: 2, uid: os.Geteuid()})
			v.warm()
			w := v.watch(v.list())
			start := time.Now()
			v.cmd.Process.Signal(syscall.SIGTERM)
			if err := v.wait(); err != nil {
				t.Errorf("the service ended with %v", err)
			}
			t.Logf("stopped in %v", time.Since(start).Round(time.Millisecond))
			if live, dirs := w.alive(0), w.present(); len(live)+len(dirs) > 0 {
				t.Errorf("after a clean stop there live %v, there are %q", live, dirs)
			}
			v.nothing(w)
			// Every browser answered. Firefox, where it takes longer to close
			// than the hook may take, gets TERM then; no other signal goes to a
			// browser that can be talked to.
			log := strings.Join(v.lines(), "\n")
			late := strings.Count(log, "hook-failed")
			ended := strings.Count(log, "browser ended: <nil>")
			if n := strings.Count(log, "goodbye answered"); n != 2 && (load(t) < 4*float64(runtime.NumCPU()) || ended+late < 2) {
				t.Errorf("%d of 2 browsers answered the goodbye, %d ended by it, %d hooks failed", n, ended, late)
			}
			for pid := range w.main {
				if late == 0 && strings.Contains(log, fmt.Sprintf("pid=%d signal=", pid)) {
					t.Errorf("browser %d was signalled", pid)
				}
			}
		})
	}
}

// A browser that crashes is replaced, and its directories go after its last
// helper.
func TestCrashedBrowserIsReplaced(t *testing.T) {
	for _, browser := range []string{"firefox-esr", "chromium"} {
		t.Run(browser, func(t *testing.T) {
			v := run(t, setup{browser: browser, n: 2, uid: os.Geteuid()})
			old := v.warm()[0]
			all := v.list()
			crashed := slices.DeleteFunc(slices.Clone(all), func(l custody.LaunchInfo) bool { return l.ID != old.ID })
			rest := slices.DeleteFunc(slices.Clone(all), func(l custody.LaunchInfo) bool { return l.ID == old.ID })
			w, other := v.watch(crashed), v.watch(rest)
			start := time.Now()
			if err := unix.PidfdSendSignal(w.fd(old.PID), unix.SIGKILL, nil, 0); err != nil {
				t.Fatal(err)
			}
			p, d := w.gone(start, 10*time.Second)
			t.Logf("processes gone after %v, directories after %v", p.Round(time.Millisecond), d.Round(time.Millisecond))
			until(t, "a replacement", time.Minute, func() bool {
				ws := v.workers()
				return len(ws) == 2 && !slices.ContainsFunc(ws, func(x worker) bool { return x.ID == old.ID })
			})
			v.warm()
			if live := other.alive(0); !slices.Contains(slices.Collect(maps.Values(live)), rest[0].PID) {
				t.Errorf("the other browser %d died too", rest[0].PID)
			}
			if tr := w.traces(); len(tr) > 0 {
				t.Errorf("traces of the crashed browser: %q", tr)
			}
		})
	}
}

// Age is no evidence: while a browser lives its profile is left alone, however
// old it looks and however often somebody sweeps; then it goes once, and stays
// away.
func TestSweepSparesALiveProfile(t *testing.T) {
	for _, browser := range []string{"firefox-esr", "chromium"} {
		t.Run(browser, func(t *testing.T) {
			v := run(t, setup{browser: browser, n: 1, uid: os.Geteuid()})
			ws := v.warm()
			w := v.watch(v.list())
			profile := filepath.Dir(ws[0].Profile)
			before, err := os.Stat(ws[0].Profile)
			if err != nil {
				t.Fatal(err)
			}
			sweeper := v.sweeper()
			input, err := sweeper.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			sweeper.Stdout, sweeper.Stderr = &out, &out
			if err := sweeper.Start(); err != nil {
				t.Fatal(err)
			}
			var kept []string
			for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
				kept = age(t, profile)
			}
			// A second owner's start sweeps too.
			second, err := custody.Open(t.Context(), "browserpool", &custody.Options{Dir: v.dir, WithoutHelper: true})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(second.Swept().Launches); n != 0 {
				t.Errorf("a second owner swept %d launches of a living one", n)
			}
			second.Close()
			after, err := os.Stat(ws[0].Profile)
			if err != nil || !os.SameFile(before, after) {
				t.Fatalf("the live profile was touched: %v", err)
			}
			for _, name := range []string{".custody", "PROFILE"} {
				if !slices.Contains(kept, filepath.Join(profile, name)) {
					t.Errorf("the live profile lost %s", name)
				}
			}
			if now := v.warm(); now[0].ID != ws[0].ID || now[0].PID != ws[0].PID {
				t.Errorf("browser %d did not live through it", ws[0].PID)
			}
			// Killed under the sweeper's eyes: keeper and sweeper exclude each other.
			start := time.Now()
			v.cmd.Process.Kill()
			w.gone(start, 3*time.Second)
			v.wait()
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if d := w.present(); len(d) > 0 {
					t.Fatalf("came back: %q", d)
				}
			}
			input.Close()
			if err := sweeper.Wait(); err != nil {
				t.Error(err)
			}
			t.Log(strings.TrimSpace(out.String()))
			v.nothing(w)
		})
	}
}

// age sets every time below dir back by an hour, and returns what it saw.
func age(t *testing.T, dir string) []string {
	var seen []string
	then := time.Now().Add(-time.Hour)
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			seen = append(seen, path)
			ts := []unix.Timespec{unix.NsecToTimespec(then.UnixNano()), unix.NsecToTimespec(then.UnixNano())}
			unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW)
		}
		return nil
	})
	if len(seen) < 5 {
		t.Errorf("the profile holds only %q", seen)
	}
	return seen
}
