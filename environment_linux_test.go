package custody_test

// What ends more than the owner is found before a launch that is to survive
// it is started.

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/unit/unittest"
)

// unitCgroup makes the cgroup of a unit, as systemd would, at the root of the
// hierarchy; it returns its directory and its path in there.
func unitCgroup(t *testing.T, pattern string) (dir, path string) {
	t.Helper()
	dir, err := os.MkdirTemp(unifiedRoot(t), pattern)
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("no writable cgroup: ", err)
	}
	must(t, err)
	t.Cleanup(func() {
		until(t, "its cgroup is empty", func() bool {
			err := syscall.Rmdir(dir)
			return err == nil || errors.Is(err, fs.ErrNotExist)
		})
	})
	return dir, "/" + filepath.Base(dir)
}

// unifiedRoot is the root of the cgroup hierarchy of version 2.
func unifiedRoot(t *testing.T) string {
	t.Helper()
	base, err := host.CgroupBase()
	if err != nil {
		t.Skip("no writable cgroup: ", err)
	}
	b, err := os.ReadFile("/proc/self/cgroup")
	must(t, err)
	own, err := host.ParseCgroup(b)
	must(t, err)
	return strings.TrimSuffix(base, strings.TrimSuffix(own, "/"))
}

// startIn runs custody start in a cgroup.
func startIn(t *testing.T, cgroup string, env []string, args ...string) ran {
	t.Helper()
	path, err := binary()
	must(t, err)
	f, err := os.Open(cgroup)
	must(t, err)
	defer f.Close()
	c := exec.Command(path, append([]string{"start"}, args...)...)
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	var ee *exec.ExitError
	if err = c.Run(); err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return ran{c.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// ended stops what a start printed.
func ended(t *testing.T, dir string, r ran) {
	t.Helper()
	var l struct{ ID string }
	if err := json.Unmarshal([]byte(r.out), &l); err != nil || r.code != 0 {
		t.Fatalf("it did not start: %d %s %s", r.code, r.out, r.errOut)
	}
	if r := cli(t, nil, "stop", "--dir", dir, l.ID); r.code != 0 {
		t.Errorf("stop: %+v", r)
	}
}

func TestSurvivorInAServiceUnit(t *testing.T) {
	cgroup, path := unitCgroup(t, "custody-test-*.service")
	name := filepath.Base(path)
	for mode, want := range map[string]string{
		"control-group": "refused", "mixed": "refused", "process": "silent", "none": "silent", "": "warned",
	} {
		t.Run("KillMode="+mode, func(t *testing.T) {
			bus := unittest.Bus(t)
			m := unittest.Manager{Properties: map[string]map[string]any{name: {"ControlGroup": path, "KillMode": mode}}}
			if mode == "" {
				m.Properties = nil // it knows of no such unit
			}
			m.Serve(t, bus)
			env := []string{"DBUS_SYSTEM_BUS_ADDRESS=" + bus}
			dir, ran := stateDir(t), filepath.Join(t.TempDir(), "ran")
			args := []string{"--dir", dir, "--json", "--", "sh", "-c", "touch " + ran + "; exec sleep 60"}
			r := startIn(t, cgroup, env, args...)
			switch want {
			case "refused":
				if r.code != 125 || !strings.Contains(r.errOut, name+" has KillMode="+mode) || !strings.Contains(r.errOut, "--scope-unit") {
					t.Errorf("%+v", r)
				}
				if _, err := os.Stat(ran); err == nil {
					t.Error("user code ran")
				}
				if recs, _ := filepath.Glob(filepath.Join(dir, "start", "*", "*.json")); len(recs) > 0 {
					t.Errorf("left: %v", recs)
				}
				r = startIn(t, cgroup, env, append([]string{"--accept-environment"}, args...)...)
				if r.errOut != "" {
					t.Errorf("it was accepted: %s", r.errOut)
				}
			case "warned":
				if strings.Count(r.errOut, "\n") != 1 || !strings.Contains(r.errOut, "warning: the launch may not outlive its owner: we are in "+name) {
					t.Errorf("%+v", r)
				}
			case "silent":
				if r.errOut != "" {
					t.Errorf("%+v", r)
				}
			}
			ended(t, dir, r)
		})
	}
}

// Launches that die with their owner are nobody's business.
func TestKillLaunchInAServiceUnit(t *testing.T) {
	cgroup, _ := unitCgroup(t, "custody-test-*.service")
	path, err := binary()
	must(t, err)
	f, err := os.Open(cgroup)
	must(t, err)
	defer f.Close()
	c := exec.Command(path, "run", "--dir", stateDir(t), "--", "echo", "fine")
	c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	if out, err := c.CombinedOutput(); err != nil || string(out) != "fine\n" {
		t.Errorf("%s %v", out, err)
	}
}

func TestSurvivorUnderAPID1(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes PID namespaces here")
	}
	path, err := binary()
	must(t, err)
	for what, c := range map[string]struct {
		above []string
		code  int
		says  string
	}{
		"custody is PID 1":        {nil, 125, "we are PID 1 ourselves"},
		"PID 1 was run to run it": {[]string{"sh", "-c", `"$@"; exit $?`, "sh"}, 125, "PID 1 (sh) was started to run us"},
		"a shell is PID 1": {[]string{"sh", "-c", `"$0" start --name n "$@" && "$0" stop --dir "$2" n`, path}, 0,
			"warning: the launch may not outlive its owner: in this container PID 1 (sh) started us"},
	} {
		t.Run(what, func(t *testing.T) {
			args := append([]string{"--pid", "--fork", "--mount-proc", "--kill-child"}, c.above...)
			if c.code != 0 { // the other one has its own words
				args = append(args, path, "start")
			}
			args = append(args, "--dir", stateDir(t), "--", "sleep", "60")
			cmd := exec.Command("unshare", args...)
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(errOut.String(), c.says) {
				t.Errorf("%d %s, want %d %q", code, errOut.String(), c.code, c.says)
			}
		})
	}
}

func TestEnvironmentError(t *testing.T) {
	var err error = &custody.EnvironmentError{Check: "PID 1", Certain: true, Reason: "R", Remedy: "M"}
	if !errors.Is(err, custody.ErrEnvironment) {
		t.Error(err)
	}
	if !strings.HasPrefix(err.Error(), custody.ErrEnvironment.Error()+": R; nothing was run. Remedy: M; or accept") {
		t.Error(err)
	}
}

func TestDoctorShowsTheEnvironment(t *testing.T) {
	var names []string
	for _, c := range custody.Doctor(custody.Options{Dir: stateDir(t)}).Checks {
		names = append(names, c.Name)
	}
	for _, want := range []string{"service unit", "login session", "PID 1", "scope unit"} {
		if !strings.Contains(strings.Join(names, ","), want) {
			t.Errorf("no check %q: %v", want, names)
		}
	}
}

// What is started inside a launch ends with that, though it is to survive.
func TestSurvivorInALaunch(t *testing.T) {
	dir := stateDir(t)
	path, err := binary()
	must(t, err)
	start := func(name string, command ...string) []string {
		return append([]string{"start", "--dir", dir, "--name", name, "--json", "--"}, command...)
	}
	if r := cli(t, nil, start("outside", "sleep", "60")...); r.code != 0 || strings.Contains(r.errOut, "inside launch") {
		t.Errorf("outside: %+v", r)
	}
	said := filepath.Join(t.TempDir(), "said")
	inner := start("inside", "sleep", "60")
	r := cli(t, nil, start("outer", append([]string{"sh", "-c",
		`said=$1; shift; "$@" >"$said.new" 2>&1; mv "$said.new" "$said"; exec sleep 60`, "sh", said, path}, inner...)...)...)
	var outer struct{ ID string }
	must(t, json.Unmarshal([]byte(r.out), &outer))
	until(t, "the launch inside is started", func() bool { _, err := os.Stat(said); return err == nil })
	b, err := os.ReadFile(said)
	must(t, err)
	if want := "warning: the launch may not outlive its owner: we are inside launch " + outer.ID[:8]; !strings.Contains(string(b), want) {
		t.Errorf("inside: %s", b)
	}
	for _, name := range []string{"outer", "outside"} {
		if r := cli(t, nil, "stop", "--dir", dir, name); r.code != 0 {
			t.Errorf("stop: %+v", r)
		}
	}
	if st := status(t, dir, "inside"); st.State == custody.StateRunning {
		t.Errorf("it outlived the launch it was started in: %+v", st)
		cli(t, nil, "stop", "--dir", dir, "inside")
	}
}
