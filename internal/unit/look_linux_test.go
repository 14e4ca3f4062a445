package unit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/unit"
	"github.com/custody-project/custody/internal/unit/unittest"
	"github.com/custody-project/custody/proof"
)

const (
	ofSystem = "/system.slice/app.service"
	ofUser   = "/user.slice/user-1000.slice/user@1000.service/app.slice/app.service"
	ofLogin  = "/user.slice/user-1000.slice/session-3.scope"
)

// fake is a machine made of files, where process 50 is the owner.
type fake struct{ root string }

func machine(t *testing.T, cgroup string) fake {
	t.Helper()
	m := fake{t.TempDir()}
	m.write(t, "proc/50/cgroup", "0::"+cgroup+"\n")
	m.process(t, 50, 1, "app")
	m.process(t, 1, 0, "/sbin/init")
	m.namespace(t, "pid:[4026531836]")
	return m
}

func (m fake) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (m fake) process(t *testing.T, pid, parent int, command ...string) {
	m.write(t, fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (x) S %d %s\n", pid, parent, strings.Repeat("1 ", 48)))
	m.write(t, fmt.Sprintf("proc/%d/cmdline", pid), strings.Join(command, "\x00")+"\x00")
}

func (m fake) namespace(t *testing.T, id string) {
	t.Helper()
	path := filepath.Join(m.root, "proc/self/ns/pid")
	os.MkdirAll(filepath.Dir(path), 0o700)
	os.Remove(path)
	if err := os.Symlink(id, path); err != nil {
		t.Fatal(err)
	}
}

func (m fake) surroundings(bus string) unit.Surroundings {
	if bus == "" {
		bus = "unix:path=" + filepath.Join(m.root, "nobody")
	}
	return unit.Surroundings{Root: m.root, PID: 50, SystemBus: bus, UserBus: bus, Patience: 20 * time.Second}
}

func expect(t *testing.T, s unit.Surroundings, scope bool, name string, want proof.Answer, says string) {
	t.Helper()
	for _, f := range s.Look(t.Context(), scope) {
		if f.Name != name {
			continue
		}
		if f.Lives != want || !strings.Contains(f.Detail, says) || (f.Remedy == "") != (want == proof.Yes) {
			t.Errorf("%s: %+v, want %v with %q", name, f, want, says)
		}
		return
	}
	t.Errorf("no finding %q", name)
}

func TestServiceUnit(t *testing.T) {
	bus := unittest.Bus(t)
	(&unittest.Manager{Properties: map[string]map[string]any{
		"app.service":     {"KillMode": "control-group", "ControlGroup": ofSystem},
		"mixed.service":   {"KillMode": "mixed", "ControlGroup": "/mixed.service"},
		"process.service": {"KillMode": "process", "ControlGroup": "/process.service"},
		"none.service":    {"KillMode": "none", "ControlGroup": "/none.service"},
		"other.service":   {"KillMode": "process", "ControlGroup": "/elsewhere/other.service"},
		"mute.service":    {"ControlGroup": "/mute.service"},
	}}).Serve(t, bus)
	for _, c := range []struct {
		cgroup string
		want   proof.Answer
		says   string
	}{
		{"/", proof.Yes, "in no unit"},
		{ofSystem, proof.No, "app.service has KillMode=control-group"},
		{ofSystem + "/sub", proof.No, "app.service has KillMode=control-group"},
		{"/mixed.service", proof.No, "KillMode=mixed"},
		{"/process.service", proof.Yes, "KillMode=process"},
		{"/none.service", proof.Yes, "KillMode=none"},
		{"/other.service", proof.Unknown, `the manager that answers has it at "/elsewhere/other.service"`},
		{"/mute.service", proof.Unknown, "no KillMode"},
		{"/strange.service", proof.Unknown, "not loaded"},
		{"/system.slice/docker-1.scope", proof.Yes, "is no service"},
		{ofLogin, proof.Yes, "is no service"},
	} {
		m := machine(t, c.cgroup)
		expect(t, m.surroundings(bus), false, unit.Service, c.want, c.says)
		expect(t, m.surroundings(bus), true, unit.Service, proof.Yes, "scope unit of its own")
	}
	expect(t, machine(t, ofSystem).surroundings(""), false, unit.Service, proof.Unknown, "no D-Bus answers")
	m := machine(t, "/")
	os.Remove(filepath.Join(m.root, "proc/50/cgroup"))
	expect(t, m.surroundings(bus), false, unit.Service, proof.Unknown, "own cgroup can't be read")
}

// A user manager is asked on its user's bus, the system's about its own units.
func TestWhichManager(t *testing.T) {
	system, user := unittest.Bus(t), unittest.Bus(t)
	(&unittest.Manager{Properties: map[string]map[string]any{
		"app.service": {"KillMode": "control-group", "ControlGroup": ofSystem},
	}}).Serve(t, system)
	(&unittest.Manager{Properties: map[string]map[string]any{
		"app.service": {"KillMode": "process", "ControlGroup": ofUser},
	}}).Serve(t, user)
	for cgroup, want := range map[string]proof.Answer{ofSystem: proof.No, ofUser: proof.Yes} {
		s := machine(t, cgroup).surroundings("")
		s.SystemBus, s.UserBus = system, user
		expect(t, s, false, unit.Service, want, "app.service has KillMode=")
	}
}

// A manager that takes the connection and says nothing is not waited for for
// ever.
func TestMuteManager(t *testing.T) {
	s := machine(t, ofSystem).surroundings(unittest.Stub(t))
	s.Patience = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, f := range s.Look(ctx, false) {
		if f.Name == unit.Service && (f.Lives != proof.Unknown || !strings.Contains(f.Detail, "deadline")) {
			t.Errorf("%+v", f)
		}
	}
	if ctx.Err() != nil {
		t.Error("it waited for ever")
	}
}

func TestLoginSession(t *testing.T) {
	for _, c := range []struct {
		what, cgroup  string
		kill          bool
		only, exclude []string
		linger        bool
		want          proof.Answer
		says          string
	}{
		{"no session", ofSystem, true, nil, nil, false, proof.Yes, "no login session"},
		{"cleared", ofLogin, true, nil, nil, false, proof.No, "killed at logout"},
		{"lingering is another matter", ofLogin, true, nil, nil, true, proof.No, "killed at logout"},
		{"left alone", ofLogin, false, nil, nil, false, proof.Yes, "left alone"},
		{"only others", ofLogin, true, []string{"eve"}, nil, false, proof.Yes, "left alone"},
		{"only this one", ofLogin, false, []string{"ann"}, nil, false, proof.No, "killed at logout"},
		{"all but this one", ofLogin, true, nil, []string{"ann"}, false, proof.Yes, "left alone"},
		{"user manager", ofUser, false, nil, nil, false, proof.Unknown, "linger is off"},
		{"user manager that stays", ofUser, true, nil, nil, true, proof.Yes, "stays"},
	} {
		t.Run(c.what, func(t *testing.T) {
			bus := unittest.Bus(t)
			unittest.Login(t, bus, map[string]any{"KillUserProcesses": c.kill, "KillOnlyUsers": c.only, "KillExcludeUsers": c.exclude},
				map[string]any{"UID": uint32(1000), "Name": "ann", "Linger": c.linger})
			expect(t, machine(t, c.cgroup).surroundings(bus), false, unit.Session, c.want, c.says)
		})
	}
	expect(t, machine(t, ofLogin).surroundings(""), false, unit.Session, proof.Unknown, "could not be asked")
	bus := unittest.Bus(t)
	unittest.Login(t, bus, nil, map[string]any{"UID": uint32(4)})
	expect(t, machine(t, ofLogin).surroundings(bus), false, unit.Session, proof.Unknown, "not logged in")
}

// root's sessions are left alone unless somebody says otherwise
// (logind.conf(5), KillExcludeUsers).
func TestRootsSession(t *testing.T) {
	for _, exclude := range [][]string{nil, {"ann"}} {
		bus := unittest.Bus(t)
		unittest.Login(t, bus, map[string]any{"KillUserProcesses": true, "KillOnlyUsers": []string{}, "KillExcludeUsers": exclude},
			map[string]any{"UID": uint32(0), "Name": "root", "Linger": false})
		want, says := proof.Yes, "left alone"
		if exclude != nil {
			want, says = proof.No, "killed at logout"
		}
		expect(t, machine(t, "/user.slice/user-0.slice/session-1.scope").surroundings(bus), false, unit.Session, want, says)
	}
}

func TestPID1(t *testing.T) {
	const container = "pid:[4026532000]"
	for _, c := range []struct {
		what  string
		ns    string
		world func(t *testing.T, m fake)
		want  proof.Answer
		says  string
	}{
		{"the machine's init", "", nil, proof.Yes, "the machine's own"},
		{"an init that runs us, of a small machine", "", func(t *testing.T, m fake) {
			m.process(t, 1, 0, "/sbin/tini", "--", "app", "-x")
			m.process(t, 50, 1, "app", "-x")
		}, proof.No, "PID 1 (tini) was started to run us"},
		{"an init that runs us, of a container", container, func(t *testing.T, m fake) {
			m.process(t, 1, 0, "dumb-init", "app")
		}, proof.No, "PID 1 (dumb-init) was started to run us"},
		{"an init that runs what runs us", container, func(t *testing.T, m fake) {
			m.process(t, 1, 0, "tini", "server", "1")
			m.process(t, 40, 1, "server", "1")
			m.process(t, 50, 40, "app")
		}, proof.Unknown, "PID 1 (tini) ends with process 40 (server)"},
		{"a program as PID 1", container, func(t *testing.T, m fake) {
			m.process(t, 1, 0, "node", "main.js")
		}, proof.Unknown, "PID 1 (node) started us and may end with us"},
		{"its grandchild", container, func(t *testing.T, m fake) {
			m.process(t, 1, 0, "node", "main.js")
			m.process(t, 40, 1, "sh")
			m.process(t, 50, 40, "app")
		}, proof.Unknown, "PID 1 (node)"},
		{"a service manager as PID 1", container, func(t *testing.T, m fake) {
			m.process(t, 1, 0, "/usr/lib/systemd/systemd", "--unit=x")
		}, proof.Yes, "lives as long as its PID 1 (systemd)"},
		{"come in from outside", container, func(t *testing.T, m fake) {
			m.process(t, 1, 0, "node", "main.js")
			m.process(t, 50, 0, "app")
		}, proof.Yes, "PID 1 (node), which does not end with us"},
		{"the arguments of PID 1 are hidden", container, func(t *testing.T, m fake) {
			os.Remove(filepath.Join(m.root, "proc/1/cmdline"))
		}, proof.Unknown, "PID 1 (?)"},
		{"a kernel thread's child", "", func(t *testing.T, m fake) {
			m.write(t, "proc/1/cmdline", "")
		}, proof.Yes, "the machine's own"},
		{"no ancestors to be read", container, func(t *testing.T, m fake) {
			os.Remove(filepath.Join(m.root, "proc/50/stat"))
		}, proof.Unknown, "ancestors can't be read"},
		{"no namespace to be read", "", func(t *testing.T, m fake) {
			os.Remove(filepath.Join(m.root, "proc/self/ns/pid"))
		}, proof.Unknown, "namespace can't be read"},
	} {
		t.Run(c.what, func(t *testing.T) {
			m := machine(t, "/")
			if c.ns != "" {
				m.namespace(t, c.ns)
			}
			if c.world != nil {
				c.world(t, m)
			}
			expect(t, m.surroundings(""), false, unit.Init, c.want, c.says)
		})
	}
	s := machine(t, "/").surroundings("")
	s.PID = 1
	expect(t, s, false, unit.Init, proof.No, "we are PID 1 ourselves")
}

// With a scope unit of its own it depends on the manager of that.
func TestScopesSession(t *testing.T) {
	s := machine(t, ofLogin).surroundings("")
	want, says := proof.Unknown, fmt.Sprintf("logout of uid %d", os.Geteuid())
	if os.Geteuid() == 0 {
		want, says = proof.Yes, "no login session"
	}
	expect(t, s, true, unit.Session, want, says)
}
