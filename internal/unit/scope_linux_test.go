package unit_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/unit"
	"github.com/custody-project/custody/internal/unit/unittest"
)

// sleeper is a process to be put into a scope.
func sleeper(t *testing.T) int {
	t.Helper()
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return c.Process.Pid
}

// cgroups makes a directory for scopes.
func cgroups(t *testing.T) string {
	t.Helper()
	base, err := host.CgroupBase()
	if err != nil {
		t.Skip("no writable cgroup: ", err)
	}
	dir, err := os.MkdirTemp(base, "unittest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	return dir
}

func start(t *testing.T, bus string, patience time.Duration, pid int) error {
	t.Helper()
	s := unit.Surroundings{SystemBus: bus, UserBus: bus, Patience: patience}
	return s.StartScope(t.Context(), unit.Scope{Name: "custody-x.scope", Description: "a test", PIDs: []int{pid}, Stop: 15 * time.Second})
}

func TestScope(t *testing.T) {
	m := unittest.Manager{Cgroup: cgroups(t)}
	bus := unittest.Bus(t)
	m.Serve(t, bus)
	pid := sleeper(t)
	t.Cleanup(func() { leave(t, pid) })
	if err := start(t, bus, 0, pid); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil || !strings.Contains(string(b), "/custody-x.scope\n") {
		t.Errorf("it is in %s %v", b, err)
	}
	calls := m.Calls()
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	c := calls[0]
	if c.Name != "custody-x.scope" || c.Mode != "fail" || len(c.PIDs) != 1 || c.PIDs[0] != pid {
		t.Errorf("%+v", c)
	}
	for name, want := range map[string]any{"Description": "a test", "Delegate": true, "CollectMode": "inactive-or-failed",
		"KillMode": "control-group", "TimeoutStopUSec": uint64(15_000_000)} {
		if c.Properties[name] != want {
			t.Errorf("%s is %v, want %v", name, c.Properties[name], want)
		}
	}
}

// leave takes a process back to our own cgroup.
func leave(t *testing.T, pid int) {
	base, err := host.CgroupBase()
	if err == nil {
		err = os.WriteFile(filepath.Join(base, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestScopeFails(t *testing.T) {
	for what, c := range map[string]struct {
		m    *unittest.Manager
		says string
	}{
		"refused":               {&unittest.Manager{Error: "Interactive authentication required."}, "Interactive authentication required."},
		"the job fails":         {&unittest.Manager{Result: "failed"}, `job ended with "failed"`},
		"the job is a lie":      {&unittest.Manager{Idle: true}, "is not in it"},
		"no answer":             {&unittest.Manager{Silent: true}, "does not answer"},
		"the job never ends":    {&unittest.Manager{Jobless: true}, "does not answer"},
		"no manager on the bus": {nil, "service manager can be asked for one"},
	} {
		t.Run(what, func(t *testing.T) {
			bus := unittest.Bus(t)
			patience := 10 * time.Second
			if c.m != nil {
				c.m.Serve(t, bus)
				if c.m.Silent || c.m.Jobless {
					patience = 300 * time.Millisecond
				}
			}
			err := start(t, bus, patience, sleeper(t))
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "scope unit custody-x.scope: ") {
				t.Errorf("%v, want %q", err, c.says)
			}
			if errors.Is(err, errors.ErrUnsupported) != (c.m == nil) {
				t.Errorf("unsupported: %v", err)
			}
		})
	}
	for what, bus := range map[string]string{"nobody listens": "unix:path=" + filepath.Join(t.TempDir(), "s"),
		"another machine": "tcp:host=127.0.0.1,port=1"} {
		if err := start(t, bus, 10*time.Second, sleeper(t)); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	err := start(t, unittest.Stub(t), 300*time.Millisecond, sleeper(t))
	if err == nil || errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a bus that does not answer: %v", err)
	}
}

// A bus that knows us by another number is of another PID namespace: what we
// call 4711 is somebody else there.
func TestScopeOfAnotherNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes PID namespaces here")
	}
	bus := unittest.Bus(t)
	m := unittest.Manager{}
	m.Serve(t, bus)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(ctx, "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", exe, "-test.run=^TestScopeFromInside$")
	c.Env = append(os.Environ(), "CUSTODY_TEST_BUS="+bus)
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "another PID namespace") {
		t.Errorf("%s %v", out, err)
	}
	if n := len(m.Calls()); n > 0 {
		t.Errorf("%d calls", n)
	}
}

// TestScopeFromInside is played by the test above.
func TestScopeFromInside(t *testing.T) {
	bus := os.Getenv("CUSTODY_TEST_BUS")
	if bus == "" {
		return
	}
	os.Stdout.WriteString(start(t, bus, 0, sleeper(t)).Error())
}
