package sweep

// Records of every kind before a sweep: whose are touched, whose are not, and
// what is said about them.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/tree"
	"github.com/custody-project/custody/proof"
)

func TestMain(m *testing.M) {
	tree.Main()
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type world struct {
	t     *testing.T
	dir   string
	store *ledger.Store
	here  host.Place
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	store, err := ledger.OpenStore(dir, ledger.Options{Create: true})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	here, err := host.Here()
	must(t, err)
	if here.Host == "" {
		here.Host = "a machine of its own"
	}
	return &world{t, dir, store, here}
}

// owner makes the directory of an owner that is dead by now.
func (w *world) owner(change func(*ledger.OwnerRecord)) *ledger.Owner {
	w.t.Helper()
	rec := ledger.OwnerRecord{ID: proof.NewID(), Scope: "test", Host: w.here.Host, Boot: w.here.Boot, PIDNS: w.here.PIDNS,
		Process: proof.Identity{PID: 1<<22 - 1, Start: 1}}
	if change != nil {
		change(&rec)
	}
	o, err := w.store.NewOwner(rec)
	must(w.t, err)
	must(w.t, o.Close())
	d, err := w.store.OpenOwner("test", rec.ID)
	must(w.t, err)
	w.t.Cleanup(func() { d.Close() })
	return d
}

// victim is a running tree: two processes that log their signals.
type victim struct {
	cmd *exec.Cmd
	id  proof.Identity
	log string
}

func (w *world) victim() *victim {
	w.t.Helper()
	dir := w.t.TempDir()
	v := &victim{log: filepath.Join(dir, "log")}
	pids := filepath.Join(dir, "pids")
	argv := tree.Command("siglog", "-n", "1", "-log", v.log, "-pids", pids, "-exit-on", "TERM", "-life", "60s")
	v.cmd = exec.Command(argv[0], argv[1:]...)
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(w.t, v.cmd.Start())
	w.t.Cleanup(func() { v.cmd.Process.Kill(); v.cmd.Wait() })
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	_, err := tree.Wait(ctx, pids, 2)
	must(w.t, err)
	p, err := host.Open(v.cmd.Process.Pid)
	must(w.t, err)
	defer p.Close()
	v.id, err = p.Identity()
	must(w.t, err)
	return v
}

// signals returns what the tree got.
func (v *victim) signals() string {
	b, _ := os.ReadFile(v.log)
	return string(b)
}

func (v *victim) lives() bool { return v.cmd.Process.Signal(syscall.Signal(0)) == nil }

// record writes the record of a tree, with a directory of its own.
func (w *world) record(d *ledger.Owner, v *victim, change func(*ledger.Record)) *ledger.Record {
	w.t.Helper()
	id := proof.NewID()
	a, err := asset.TempDir(w.t.TempDir(), id, "D")
	must(w.t, err)
	must(w.t, asset.Make(&a))
	plan := []ledger.Phase{{Signal: "TERM", Wait: 10 * time.Second}, {Signal: "KILL", Wait: 5 * time.Second}}
	r := &ledger.Record{ID: id, Scope: "test", Owner: d.ID, State: ledger.Running, OnOwnerDeath: ledger.Kill,
		Phases: plan, DeathPhases: plan, Level: "group", Host: w.here.Host, Boot: w.here.Boot, PIDNS: w.here.PIDNS,
		UID: os.Geteuid(), IntentTicks: 1, Leader: &v.id, Assets: []ledger.Asset{a}, Command: []string{"siglog"}}
	if change != nil {
		change(r)
	}
	must(w.t, d.Write(r))
	return r
}

func (w *world) sweep(req Request) Report {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 60*time.Second)
	defer cancel()
	rep, err := Sweep(ctx, w.store, w.here, req)
	must(w.t, err)
	return rep
}

func (w *world) snapshot() string {
	var b strings.Builder
	must(w.t, filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s\n%s\n", path, content)
		return err
	}))
	return b.String()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestSweepEnds(t *testing.T) {
	w := newWorld(t)
	d := w.owner(nil)
	v := w.victim()
	r := w.record(d, v, nil)

	before := w.snapshot()
	rep := w.sweep(Request{DryRun: true})
	if len(rep.Results) != 1 || rep.Results[0].Outcome != WouldStop || len(rep.Results[0].Survivors) != 2 || len(rep.Results[0].Freed) != 1 {
		t.Errorf("dry run: %+v", rep)
	}
	if w.snapshot() != before || v.signals() != "" || !v.lives() || !exists(asset.Inside(r.Assets[0])) {
		t.Error("a dry run changed something")
	}

	var events []stop.Sent
	rep = w.sweep(Request{Event: func(_ proof.ID, s stop.Sent) { events = append(events, s) }})
	if len(rep.Results) != 1 || rep.Results[0].Outcome != string(stop.Gone) || len(rep.Odd) != 0 {
		t.Errorf("%+v", rep)
	}
	if n := strings.Count(v.signals(), "TERM"); n != 2 || len(events) != 2 {
		t.Errorf("%d TERM for two processes: %q, events %+v", n, v.signals(), events)
	}
	if exists(r.Assets[0].Path) || exists(d.Path()) {
		t.Error("something is left")
	}
	if rep := w.sweep(Request{}); len(rep.Results)+len(rep.Odd) > 0 {
		t.Errorf("the second sweep: %+v", rep)
	}
}

// Nobody touches what a live owner holds.
func TestSweepPassesLiveOwners(t *testing.T) {
	w := newWorld(t)
	self, err := host.Open(os.Getpid())
	must(t, err)
	defer self.Close()
	me, err := self.Identity()
	must(t, err)
	live, err := w.store.NewOwner(ledger.OwnerRecord{ID: proof.NewID(), Scope: "test", Host: w.here.Host,
		Boot: w.here.Boot, PIDNS: w.here.PIDNS, Process: me})
	must(t, err)
	defer live.Close()
	v := w.victim()
	w.record(live, v, nil)
	before := w.snapshot()
	if rep := w.sweep(Request{}); rep.Live != 1 || len(rep.Results) > 0 {
		t.Errorf("%+v", rep)
	}
	// The lock is lost, but the process lives: not ours to clean up after.
	live.Unlock()
	rep := w.sweep(Request{})
	if len(rep.Results) > 0 || len(rep.Odd) != 1 || !strings.Contains(rep.Odd[0].Reason, "lives") {
		t.Errorf("%+v", rep)
	}
	if w.snapshot() != before || v.signals() != "" {
		t.Error("a live owner's launch was touched")
	}
}

func TestSweepersShareTheWork(t *testing.T) {
	w := newWorld(t)
	var vs []*victim
	var rs []*ledger.Record
	for range 3 {
		d := w.owner(nil)
		for range 2 {
			v := w.victim()
			vs = append(vs, v)
			rs = append(rs, w.record(d, v, nil))
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	ended := map[proof.ID]int{}
	for range 4 {
		wg.Go(func() {
			store, err := ledger.OpenStore(w.dir, ledger.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer store.Close()
			rep, err := Sweep(context.Background(), store, w.here, Request{})
			if err != nil || len(rep.Odd) > 0 {
				t.Errorf("%+v, %v", rep, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, r := range rep.Results {
				if len(r.Sent) > 0 {
					ended[r.ID]++
				}
			}
		})
	}
	wg.Wait()
	for i, r := range rs {
		if ended[r.ID] != 1 || strings.Count(vs[i].signals(), "TERM") != 2 {
			t.Errorf("launch %d was ended %d times: %q", i, ended[r.ID], vs[i].signals())
		}
		if exists(r.Assets[0].Path) {
			t.Error("its directory is left")
		}
	}
}

func TestOtherPlaces(t *testing.T) {
	for what, c := range map[string]struct {
		host, boot string
		ns         uint64
		outcome    string // of the launch
		freed      bool
	}{
		"another boot":                    {boot: "another", outcome: "gone", freed: true},
		"another boot and namespace":      {boot: "another", ns: 4711, outcome: "gone", freed: true},
		"another machine":                 {host: "another", boot: "another", outcome: "foreign"},
		"another namespace":               {ns: 4711, outcome: "foreign"},
		"another boot, machine not known": {host: "-", boot: "another", outcome: "foreign"},
		"another machine and namespace":   {host: "another", boot: "another", ns: 4711, outcome: "foreign"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			elsewhere := func(h, b *string, ns *uint64) {
				if c.host == "-" {
					*h = ""
				} else if c.host != "" {
					*h = c.host
				}
				if c.boot != "" {
					*b = c.boot
				}
				if c.ns != 0 {
					*ns = c.ns
				}
			}
			d := w.owner(func(r *ledger.OwnerRecord) { elsewhere(&r.Host, &r.Boot, &r.PIDNS) })
			v := w.victim() // a stranger here, by chance under the recorded number
			r := w.record(d, v, func(r *ledger.Record) { elsewhere(&r.Host, &r.Boot, &r.PIDNS) })
			rep := w.sweep(Request{})
			if len(rep.Results) != 1 || rep.Results[0].Outcome != c.outcome || rep.Results[0].Verdict.String() != c.outcome || rep.Results[0].Reason == "" {
				t.Errorf("%+v", rep)
			}
			if v.signals() != "" || !v.lives() {
				t.Errorf("the process with the recorded number got %q", v.signals())
			}
			if exists(r.Assets[0].Path) == c.freed || exists(d.Path()) == c.freed {
				t.Errorf("directory is there: %v, record is there: %v", exists(r.Assets[0].Path), exists(d.Path()))
			}
		})
	}
}

func TestSurvivorsAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	d := w.owner(nil)
	v := w.victim()
	r := w.record(d, v, func(r *ledger.Record) { r.OnOwnerDeath = ledger.Survive })
	for range 2 {
		rep := w.sweep(Request{})
		if len(rep.Results) != 1 || rep.Results[0].Outcome != Survives {
			t.Errorf("%+v", rep)
		}
	}
	if v.signals() != "" || !exists(r.Assets[0].Path) {
		t.Fatalf("a survivor was touched: %q", v.signals())
	}
	// One that can't be told is not signalled either.
	broken := func() (*host.Table, error) { return nil, errors.New("no table") }
	if res, done := triage(d, withoutLeader(r), w.here, broken, Request{}); done || res.Verdict != proof.Unsure {
		t.Errorf("%+v, %v", res, done)
	}
	// Its leader ended, its child goes on.
	must(t, v.cmd.Process.Kill())
	v.cmd.Wait()
	rep := w.sweep(Request{})
	if len(rep.Results) != 1 || rep.Results[0].Outcome != Survives || v.signals() != "" || !exists(r.Assets[0].Path) {
		t.Errorf("without its leader: %+v, %q", rep, v.signals())
	}
}

func withoutLeader(r *ledger.Record) *ledger.Record {
	c := *r
	c.Leader = nil
	return &c
}

// One good record among bad ones: it is handled, they are set aside.
func TestBadRecordsAmongGood(t *testing.T) {
	w := newWorld(t)
	d := w.owner(nil)
	v, bystander := w.victim(), w.victim()
	r := w.record(d, v, nil)
	bad := 0
	for _, pid := range []string{"0", "-1", "1", "+0", "4294967296", ""} {
		b := w.record(d, bystander, nil)
		path := filepath.Join(d.Path(), b.ID.String()+".json")
		content, err := os.ReadFile(path)
		must(t, err)
		spoilt := bytes.ReplaceAll(content, fmt.Appendf(nil, `"pid": %d`, bystander.id.PID), []byte(`"pid": `+pid))
		must(t, os.WriteFile(path, spoilt, 0o600))
		bad++
	}
	half := w.record(d, bystander, nil)
	must(t, os.Truncate(filepath.Join(d.Path(), half.ID.String()+".json"), 200))
	open := w.record(d, bystander, nil)
	must(t, os.Chmod(filepath.Join(d.Path(), open.ID.String()+".json"), 0o666))
	link := filepath.Join(d.Path(), proof.NewID().String()+".json")
	must(t, os.Symlink(open.ID.String()+".json", link))
	bad += 3

	rep := w.sweep(Request{})
	if len(rep.Results) != 1 || rep.Results[0].ID != r.ID || rep.Results[0].Outcome != "gone" {
		t.Errorf("the good one: %+v", rep.Results)
	}
	if len(rep.Odd) != bad {
		t.Errorf("%d set aside, want %d: %+v", len(rep.Odd), bad, rep.Odd)
	}
	if bystander.signals() != "" || !bystander.lives() {
		t.Errorf("the bystander got %q", bystander.signals())
	}
	for _, x := range rep.Odd {
		if !exists(x.Path) {
			t.Errorf("%s was removed", x.Path)
		}
	}
	if !exists(half.Assets[0].Path) || !exists(open.Assets[0].Path) {
		t.Error("a directory named by a bad record was removed")
	}
}

// An owner's directory that can't be believed is told, not passed over.
func TestBadOwners(t *testing.T) {
	for what, spoil := range map[string]func(dir string) error{
		"no owner.json":      func(d string) error { return os.Remove(filepath.Join(d, "owner.json")) },
		"garbage owner.json": func(d string) error { return os.WriteFile(filepath.Join(d, "owner.json"), []byte("{"), 0o600) },
		"no lock":            func(d string) error { return os.Remove(filepath.Join(d, "lock")) },
		"open lock":          func(d string) error { return os.Chmod(filepath.Join(d, "lock"), 0o666) },
		"open directory":     func(d string) error { return os.Chmod(d, 0o777) },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			d := w.owner(nil)
			v := w.victim()
			r := w.record(d, v, nil)
			must(t, spoil(d.Path()))
			rep := w.sweep(Request{})
			if len(rep.Results) != 0 || len(rep.Odd) != 1 || rep.Odd[0].Reason == "" || !strings.HasPrefix(rep.Odd[0].Path, d.Path()) {
				t.Errorf("%+v", rep)
			}
			if v.signals() != "" || !exists(r.Assets[0].Path) {
				t.Error("something was touched")
			}
		})
	}
}

// A directory that can't be freed keeps its record, and nothing else.
func TestUnfreeableDirectory(t *testing.T) {
	w := newWorld(t)
	d := w.owner(nil)
	v := w.victim()
	other := w.record(d, v, nil)
	r := w.record(d, v, func(r *ledger.Record) {
		second, err := asset.TempDir(t.TempDir(), r.ID, "E")
		must(t, err)
		must(t, asset.Make(&second))
		must(t, os.Remove(filepath.Join(r.Assets[0].Path, asset.MarkerName)))
		r.Assets = append(r.Assets, second)
	})
	rep := w.sweep(Request{})
	for _, res := range rep.Results {
		if res.ID == r.ID && (res.Outcome != "incomplete" || !strings.Contains(res.Reason, "marker")) ||
			res.ID == other.ID && res.Outcome != "gone" {
			t.Errorf("%+v", res)
		}
	}
	if !exists(r.Assets[0].Path) || exists(r.Assets[1].Path) || exists(other.Assets[0].Path) || !exists(d.Path()) {
		t.Error("freed the wrong ones")
	}
	if _, err := d.Read(r.ID); err != nil {
		t.Errorf("its record: %v", err)
	}
}
