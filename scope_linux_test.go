package custody_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
	"github.com/custody-project/custody/internal/unit/unittest"
)

// manage puts a service manager where this process and its children look for
// one.
func manage(t *testing.T, m *unittest.Manager) (env []string) {
	t.Helper()
	bus := unittest.Bus(t)
	if m != nil {
		m.Serve(t, bus)
	}
	for _, name := range []string{"DBUS_SYSTEM_BUS_ADDRESS", "DBUS_SESSION_BUS_ADDRESS"} {
		t.Setenv(name, bus)
		env = append(env, name+"="+bus)
	}
	return env
}

// scoped is a launch that writes down its cgroup as soon as it runs.
func scoped(t *testing.T, o *custody.Owner, ctx context.Context) (c *custody.Cmd, file string) {
	file = filepath.Join(t.TempDir(), "cgroup")
	c = o.CommandContext(ctx, "sh", "-c", "cat /proc/self/cgroup >"+file+".new; mv "+file+".new "+file+"; exec sleep 60")
	c.Kept, c.ScopeUnit = true, true
	c.Phases = []custody.Phase{{Signal: syscall.SIGTERM, Wait: 10 * time.Second}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
	return c, file
}

// recordOf reads the only record of the state directory.
func recordOf(t *testing.T, dir string) (rec struct {
	Level  string
	Cgroup *struct{ Path string }
}) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "test", "*", "????????????????????????????????.json"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	b, err := os.ReadFile(files[0])
	must(t, err)
	must(t, json.Unmarshal(b, &rec))
	return rec
}

// The keeper goes into the scope before the leader is born, and the launch's
// own cgroup is in there.
func TestScopeUnit(t *testing.T) {
	scopes, _ := unitCgroup(t, "custody-test-*.slice")
	m := &unittest.Manager{Cgroup: scopes, Hold: make(chan struct{})}
	manage(t, m)
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	c, file := scoped(t, o, t.Context())
	c.Name, c.OnOwnerDeath, c.Require = "engine", custody.Survive, custody.LevelCgroup
	started := make(chan error, 1)
	go func() { started <- c.Start() }()
	until(t, "the manager is asked", func() bool { return len(m.Calls()) == 1 })
	select {
	case err := <-started:
		t.Fatal("started before the job was done: ", err)
	case <-time.After(300 * time.Millisecond):
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("user code ran before the job was done")
	}
	close(m.Hold)
	must(t, <-started)
	l := c.Launch()
	until(t, "the leader told", func() bool { _, err := os.Stat(file); return err == nil })
	b, err := os.ReadFile(file)
	must(t, err)
	scope := "custody-" + l.ID().String() + ".scope"
	if !strings.Contains(string(b), "/"+scope+"/custody-"+l.ID().String()+"\n") {
		t.Errorf("the leader was born in %s", b)
	}
	if l.Level() != custody.LevelCgroup {
		t.Errorf("level %s", l.Level())
	}
	if rec := recordOf(t, dir); rec.Level != "cgroup" || rec.Cgroup == nil || rec.Cgroup.Path != filepath.Join(scopes, scope, "custody-"+l.ID().String()) {
		t.Errorf("recorded: %+v", rec)
	}
	call := m.Calls()[0]
	if call.Name != scope || call.Properties["Description"] != "custody: engine" || call.Properties["TimeoutStopUSec"] != uint64(15_000_000) {
		t.Errorf("%+v", call)
	}
	if slices.Contains(call.PIDs, l.PID()) || len(call.PIDs) != 1 {
		t.Errorf("the keeper alone goes in: %v, leader %d", call.PIDs, l.PID())
	}
	res, err := l.Stop(t.Context())
	if err != nil || res.Outcome != "gone" {
		t.Errorf("%+v %v", res, err)
	}
	// The manager's test end waits until the scope is empty.
}

// A scope in which no cgroup can be made holds the launch too, and its level
// says what is held.
func TestScopeUnitIsNoLevel(t *testing.T) {
	for _, require := range []custody.Level{"", custody.LevelCgroup} {
		scopes, _ := unitCgroup(t, "custody-test-*.slice")
		// Nothing may be made below the scopes of this one.
		must(t, os.WriteFile(filepath.Join(scopes, "cgroup.max.depth"), []byte("1"), 0))
		m := &unittest.Manager{Cgroup: scopes}
		manage(t, m)
		dir := stateDir(t)
		o := openOwner(t, custody.Options{Dir: dir})
		c, file := scoped(t, o, t.Context())
		c.Require = require
		err := c.Start()
		if require != "" {
			var le *custody.LevelError
			if !errors.As(err, &le) || le.Available != custody.LevelLineage || le.Missing == "" {
				t.Errorf("%v", err)
			}
			nothingLeft(t, o, dir, file, m)
			continue
		}
		must(t, err)
		if rec := recordOf(t, dir); rec.Level != "lineage" || rec.Cgroup != nil || c.Launch().Level() != custody.LevelLineage {
			t.Errorf("%+v, level %s", rec, c.Launch().Level())
		}
		_, err = c.Launch().Stop(t.Context())
		must(t, err)
	}
}

// nothingLeft fails if something of a failed start is there.
func nothingLeft(t *testing.T, o *custody.Owner, dir, file string, m *unittest.Manager) {
	t.Helper()
	if _, err := os.Stat(file); err == nil {
		t.Error("user code ran")
	}
	if ls := o.Launches(); len(ls) > 0 {
		t.Errorf("launches: %v", ls)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "test", "*", "????????????????????????????????.json")); len(files) > 0 {
		t.Errorf("records: %v", files)
	}
	if m == nil {
		return
	}
	for _, call := range m.Calls() {
		for _, pid := range call.PIDs {
			until(t, "the keeper is gone", func() bool { return !lives(tree.Proc{PID: pid}) })
		}
	}
}

func TestScopeUnitFails(t *testing.T) {
	for what, c := range map[string]struct {
		m    *unittest.Manager
		says string
	}{
		"refused":         {&unittest.Manager{Error: "Interactive authentication required."}, "Interactive authentication required."},
		"the job fails":   {&unittest.Manager{Result: "failed"}, `job ended with "failed"`},
		"a lie":           {&unittest.Manager{Idle: true}, "is not in it"},
		"no answer":       {&unittest.Manager{Silent: true}, "deadline"},
		"never done":      {&unittest.Manager{Jobless: true}, "deadline"},
		"nobody is there": {nil, "service manager can be asked for one"},
	} {
		t.Run(what, func(t *testing.T) {
			manage(t, c.m)
			dir := stateDir(t)
			o := openOwner(t, custody.Options{Dir: dir})
			ctx := t.Context()
			if c.says == "deadline" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			cmd, file := scoped(t, o, ctx)
			said, err := os.Create(filepath.Join(t.TempDir(), "said"))
			must(t, err)
			defer said.Close()
			cmd.Stderr = said
			err = cmd.Start()
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "scope unit custody-") {
				t.Errorf("%v, want %q", err, c.says)
			}
			if errors.Is(err, errors.ErrUnsupported) != (c.m == nil) {
				t.Errorf("unsupported: %v", err)
			}
			nothingLeft(t, o, dir, file, c.m)
			if b, _ := os.ReadFile(said.Name()); len(b) > 0 {
				t.Errorf("on the command's standard error: %s", b)
			}
		})
	}
}

// Without its owner a keeper that was not told to begin ends, and starts
// nothing.
func TestOwnerDiesBeforeTheScope(t *testing.T) {
	m := &unittest.Manager{Silent: true}
	env := manage(t, m)
	dir := stateDir(t)
	file := filepath.Join(t.TempDir(), "ran")
	touch, err := exec.LookPath("touch")
	must(t, err)
	owner := play(t, "owner", order{Dir: dir, Kept: true, Scope: true, Command: []string{touch, file}}, env...)
	must(t, owner.Start())
	until(t, "the manager is asked", func() bool { return len(m.Calls()) == 1 })
	must(t, owner.Process.Kill())
	owner.Wait()
	keeper := m.Calls()[0].PIDs[0]
	until(t, "the keeper is gone", func() bool { return !lives(tree.Proc{PID: keeper}) })
	_, err = custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
	must(t, err)
	nothingLeft(t, openOwner(t, custody.Options{Dir: dir}), dir, file, nil)
}

func TestScopeUnitNeedsAKeeper(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	c := o.Command("true")
	c.ScopeUnit = true
	if err := c.Start(); err == nil || !strings.Contains(err.Error(), "needs Kept") {
		t.Error(err)
	}
}

func TestStartScopeUnit(t *testing.T) {
	scopes, _ := unitCgroup(t, "custody-test-*.slice")
	service, _ := unitCgroup(t, "custody-test-*.service")
	m := &unittest.Manager{Cgroup: scopes}
	env := manage(t, m)
	dir := stateDir(t)
	// In a service nothing but the scope saves it.
	r := startIn(t, service, env, "--dir", dir, "--scope-unit", "--json", "--", "sleep", "60")
	if r.code != 0 || r.errOut != "" || len(m.Calls()) != 1 {
		t.Errorf("%+v, %d calls", r, len(m.Calls()))
	}
	if len(m.Calls()[0].PIDs) != 2 {
		t.Errorf("the keeper and the spare reader of the log go in: %v", m.Calls()[0].PIDs)
	}
	b, err := os.ReadFile(filepath.Join(service, "cgroup.procs"))
	if err != nil || len(b) > 0 {
		t.Errorf("left in the service: %s %v", b, err)
	}
	ended(t, dir, r)
	r = cli(t, []string{"DBUS_SYSTEM_BUS_ADDRESS=unix:path=" + dir + "/none", "DBUS_SESSION_BUS_ADDRESS=unix:path=" + dir + "/none", "XDG_RUNTIME_DIR=" + dir},
		"start", "--dir", dir, "--scope-unit", "--", "sleep", "60")
	if r.code != 125 || !strings.Contains(r.errOut, "service manager can be asked for one") {
		t.Errorf("%+v", r)
	}
}
