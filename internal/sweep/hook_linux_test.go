package sweep

// The recorded stop hook: once, at its time, and the truth about it.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

// hooked records a tree with a hook: a shell script that notes each run.
func (w *world) hooked(d *ledger.Owner, v *victim, script string, change func(*ledger.Record)) (r *ledger.Record, runs func() []string) {
	file := filepath.Join(w.t.TempDir(), "runs")
	sh, err := filepath.EvalSymlinks("/bin/sh")
	must(w.t, err)
	r = w.record(d, v, func(r *ledger.Record) {
		r.StopHook = &ledger.StopHook{State: ledger.HookPending, Timeout: 20 * time.Second,
			Command: []string{sh, "-c", "echo run >>" + file + "\n" + script}}
		if change != nil {
			change(r)
		}
	})
	return r, func() []string { b, _ := os.ReadFile(file); return strings.Fields(string(b)) }
}

func (w *world) end(d *ledger.Owner, r *ledger.Record, opt Options) Result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 60*time.Second)
	defer cancel()
	opt.Known = r
	return End(ctx, d, r.ID, w.here, opt)
}

// dead is a tree that has ended.
func (w *world) dead() *victim {
	v := w.victim()
	d := w.owner(nil)
	w.end(d, w.record(d, v, nil), Options{Phases: []stop.Phase{{Signal: syscall.SIGKILL, Wait: 10 * time.Second}}})
	v.cmd.Wait()
	return v
}

func TestHookBeforeTheFirstPhase(t *testing.T) {
	w := newWorld(t)
	d, v := w.owner(nil), w.victim()
	t.Setenv("CUSTODY_LAUNCH", "the cookie of an outer launch")
	r, runs := w.hooked(d, v, `cat `+v.log+`; pwd; env; cat; grep real-time /proc/self/limits; cut -d' ' -f1,5,6 /proc/$$/stat; echo $$ >&2; sleep 0.2`,
		func(r *ledger.Record) { r.Name = "web"; r.Exit = &ledger.Exit{Code: 7} })
	res := w.end(d, r, Options{})
	if res.Outcome != string(stop.Gone) || len(runs()) != 1 || !strings.Contains(v.signals(), "TERM") {
		t.Fatalf("%+v, ran %v", res, runs())
	}
	h := res.Hook
	if h == nil || h.State != ledger.HookDone || h.Code != 0 || h.Reason != "" {
		t.Fatalf("hook: %+v", h)
	}
	if strings.Contains(h.Output, "TERM") {
		t.Error("a signal was sent before the hook had ended")
	}
	for _, want := range []string{"/\n", "PATH=", "CUSTODY_HOOK_LAUNCH=" + r.ID.String() + "\n", "CUSTODY_HOOK_SCOPE=test\n",
		"CUSTODY_HOOK_NAME=web\n", "CUSTODY_HOOK_EXIT=7\n"} {
		if !strings.Contains(h.Output, want) {
			t.Errorf("%q is missing in %q", want, h.Output)
		}
	}
	if strings.Contains(h.Output, "CUSTODY_LAUNCH=") {
		t.Errorf("the hook looks like a member: %q", h.Output)
	}
	var pid, pgid, sid int
	lines := strings.Split(strings.TrimSpace(h.Output), "\n")
	fmt.Sscan(lines[len(lines)-2], &pid, &pgid, &sid)
	if pid == 0 || pid != pgid || pid != sid {
		t.Errorf("no session of its own: %q", lines[len(lines)-2])
	}
}

// Who asks for KILL gets that first.
func TestHookAfterAKill(t *testing.T) {
	for _, how := range []string{"phases", "now"} {
		w := newWorld(t)
		d, v := w.owner(nil), w.victim()
		r, runs := w.hooked(d, v, fmt.Sprintf("kill -0 %d && echo it lives", v.id.PID), nil)
		opt := Options{Phases: []stop.Phase{{Signal: syscall.SIGKILL, Wait: 10 * time.Second}}}
		if how == "now" {
			now := make(chan struct{})
			close(now)
			opt = Options{Now: now}
		}
		go v.cmd.Wait() // a zombie can be signalled
		res := w.end(d, r, opt)
		if res.Outcome != string(stop.Gone) || len(runs()) != 1 || res.Hook == nil {
			t.Fatalf("%s: %+v, ran %v", how, res, runs())
		}
	}
}

func TestHookFails(t *testing.T) {
	for _, c := range []struct {
		name, script string
		change       func(*ledger.StopHook)
		reason       string
		code         int
	}{
		{"code", "echo why it did not; exit 3", nil, "exit status 3", 3},
		{"signal", "kill -SEGV $$", nil, "it was ended by SEGV", -1},
		{"timeout", "sleep 60 & sleep 60", func(h *ledger.StopHook) { h.Timeout = 300 * time.Millisecond }, "it ran for longer than 300ms, and was killed", -1},
		{"missing", "", func(h *ledger.StopHook) { h.Command = []string{"/nowhere/hook"} }, "it can't be run: ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			d, v := w.owner(nil), w.victim()
			r, runs := w.hooked(d, v, c.script, func(r *ledger.Record) {
				if c.change != nil {
					c.change(r.StopHook)
				}
			})
			res := w.end(d, r, Options{})
			if res.Outcome != string(stop.Gone) || !strings.Contains(v.signals(), "TERM") {
				t.Errorf("the stop did not go on: %+v", res)
			}
			h := res.Hook
			if h == nil || h.State != ledger.HookFailed || !strings.HasPrefix(h.Reason, c.reason) || h.Code != c.code {
				t.Fatalf("hook: %+v", h)
			}
			if c.name == "code" && h.Output != "why it did not\n" {
				t.Errorf("output: %q", h.Output)
			}
			if n := len(runs()); n > 1 || n == 0 && c.name != "missing" {
				t.Errorf("ran %d times", n)
			}
		})
	}
}

// A hook that leaves something behind which holds its output open holds nothing
// up.
func TestHookLeavesSomethingBehind(t *testing.T) {
	w := newWorld(t)
	d := w.owner(nil)
	r, _ := w.hooked(d, w.dead(), "setsid sleep 20 & echo done", nil)
	began := time.Now()
	res := w.end(d, r, Options{})
	if res.Hook == nil || res.Hook.State != ledger.HookDone || res.Hook.Output != "done\n" || time.Since(began) > 15*time.Second {
		t.Errorf("%+v after %v", res.Hook, time.Since(began))
	}
}

// Two sweepers come at once, upon a launch of which nothing lives and one that
// is to be stopped.
func TestHookOnceByTwoSweepers(t *testing.T) {
	w := newWorld(t)
	d := w.owner(nil)
	_, dead := w.hooked(d, w.dead(), "sleep 0.3", nil)
	_, alive := w.hooked(d, w.victim(), "sleep 0.3", nil)
	_, survivor := w.hooked(d, w.dead(), "sleep 0.3", func(r *ledger.Record) { r.OnOwnerDeath = ledger.Survive })
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { w.sweep(Request{}) })
	}
	wg.Wait()
	w.sweep(Request{})
	for name, runs := range map[string]func() []string{"dead": dead, "alive": alive, "survivor": survivor} {
		if got := runs(); len(got) != 1 {
			t.Errorf("%s: ran %d times", name, len(got))
		}
	}
}

// What is not to be run: one that was begun by somebody who died, one of a
// foreign or released launch, one in a dry run, one of a start that failed.
func TestHookNotRun(t *testing.T) {
	w := newWorld(t)
	t.Run("begun", func(t *testing.T) {
		d := w.owner(nil)
		r, runs := w.hooked(d, w.victim(), "", func(r *ledger.Record) { r.StopHook.State = ledger.HookBegun })
		res := w.end(d, r, Options{})
		if res.Outcome != string(stop.Gone) || res.Hook == nil || res.Hook.State != ledger.HookUnknown || len(runs()) != 0 {
			t.Errorf("%+v, %+v, ran %v", res, res.Hook, runs())
		}
	})
	t.Run("foreign", func(t *testing.T) {
		d := w.owner(nil)
		r, runs := w.hooked(d, w.dead(), "", func(r *ledger.Record) { r.Host, r.Boot = "another", "another" })
		res := w.end(d, r, Options{})
		w.sweep(Request{})
		if res.Outcome != string(stop.Foreign) || res.Hook != nil || len(runs()) != 0 {
			t.Errorf("%+v, ran %v", res, runs())
		}
	})
	t.Run("released", func(t *testing.T) {
		d := w.owner(nil)
		_, runs := w.hooked(d, w.dead(), "", func(r *ledger.Record) { r.State = ledger.Released })
		rep := w.sweep(Request{Owner: d.ID})
		if len(rep.Results) != 1 || rep.Results[0].Outcome != string(stop.Gone) || len(runs()) != 0 {
			t.Errorf("%+v, ran %v", rep, runs())
		}
	})
	t.Run("failed", func(t *testing.T) {
		d := w.owner(nil)
		r, runs := w.hooked(d, w.dead(), "", nil)
		res := w.end(d, r, Options{Failed: true, Phases: []stop.Phase{{Signal: syscall.SIGKILL, Wait: time.Second}}})
		if res.Outcome != string(stop.Gone) || len(runs()) != 0 {
			t.Errorf("%+v, ran %v", res, runs())
		}
	})
	t.Run("dry run", func(t *testing.T) {
		d := w.owner(nil)
		_, runs := w.hooked(d, w.dead(), "", nil)
		rep := w.sweep(Request{Owner: d.ID, DryRun: true})
		if len(rep.Results) != 1 || rep.Results[0].Hook == nil || rep.Results[0].Hook.State != ledger.HookPending || len(runs()) != 0 {
			t.Errorf("%+v, ran %v", rep, runs())
		}
		w.sweep(Request{Owner: d.ID})
		if len(runs()) != 1 {
			t.Errorf("then ran %v", runs())
		}
	})
	t.Run("record gone", func(t *testing.T) {
		d := w.owner(nil)
		r, runs := w.hooked(d, w.victim(), "", nil)
		must(t, d.Remove(r.ID))
		res := w.end(d, r, Options{})
		if res.Outcome != string(stop.Gone) || res.Hook == nil || res.Hook.State != ledger.HookUnknown || len(runs()) != 0 {
			t.Errorf("%+v, %+v, ran %v", res, res.Hook, runs())
		}
	})
}

// A launch that survives keeps with its exit what came of its hook.
func TestHookInAnEndedRecord(t *testing.T) {
	w := newWorld(t)
	d := w.owner(nil)
	r, _ := w.hooked(d, w.victim(), "exit 4", func(r *ledger.Record) { r.OnOwnerDeath = ledger.Survive })
	w.end(d, r, Options{})
	got, err := d.Read(r.ID)
	must(t, err)
	if h := got.StopHook; got.State != ledger.Ended || h == nil || h.State != ledger.HookFailed || h.Code != 4 {
		t.Errorf("%s, %+v", got.State, h)
	}
}

// On a full disk the tree is stopped, and the hook, which can't be recorded as
// begun, waits with its record for the next sweep.
func TestHookOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	w := newWorld(t)
	small := t.TempDir()
	must(t, unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k,mode=700"))
	t.Cleanup(func() { unix.Unmount(small, unix.MNT_DETACH) })
	store, err := ledger.OpenStore(small, ledger.Options{})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	w.store = store
	d, v := w.owner(nil), w.victim()
	r, runs := w.hooked(d, v, "", nil)
	ballast := filepath.Join(small, ".fill")
	f, err := os.Create(ballast)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	res := w.end(d, r, Options{})
	if res.Outcome != string(stop.Incomplete) || res.Verdict != proof.Gone || !strings.Contains(res.Reason, "stop hook") ||
		len(runs()) != 0 || !strings.Contains(v.signals(), "TERM") {
		t.Errorf("%+v, ran %v", res, runs())
	}
	if left, _ := os.ReadDir(asset.Inside(r.Assets[0])); left != nil {
		t.Logf("kept with it: %s", asset.Inside(r.Assets[0]))
	}
	must(t, os.Remove(ballast))
	w.sweep(Request{})
	if len(runs()) != 1 || d.Has(r.ID) {
		t.Errorf("then ran %v, record there: %v", runs(), d.Has(r.ID))
	}
}
