package unittest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

func failed(name, text string) *dbus.Error { return dbus.NewError(name, []any{text}) }

func unitPath(name string) dbus.ObjectPath {
	return dbus.ObjectPath("/unit/" + strings.NewReplacer(".", "_2e", "-", "_2d", "@", "_40").Replace(name))
}

// Property is one of the properties of a transient unit.
type Property struct {
	Name  string
	Value dbus.Variant
}

// Auxiliary is a further transient unit.
type Auxiliary struct {
	Name       string
	Properties []Property
}

// Call is one StartTransientUnit.
type Call struct {
	Name, Mode string
	Properties map[string]any
	PIDs       []int
}

// Manager plays org.freedesktop.systemd1. Set its fields before Serve.
type Manager struct {
	Properties map[string]map[string]any // by unit
	Error      string                    // the text of the answer to every StartTransientUnit
	Result     string                    // of its jobs; empty is done
	Silent     bool                      // it answers no StartTransientUnit
	Jobless    bool                      // its jobs never end
	Idle       bool                      // it moves nobody
	Hold       chan struct{}             // jobs end when it is closed
	Cgroup     string                    // the directory of its scopes

	mu    sync.Mutex
	calls []Call
	conn  *dbus.Conn
	done  chan struct{}
}

// Calls returns the transient units asked for.
func (m *Manager) Calls() []Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Call(nil), m.calls...)
}

// Serve puts the manager on the bus until the test ends.
func (m *Manager) Serve(t testing.TB, address string) {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	m.conn, m.done = conn, make(chan struct{})
	t.Cleanup(func() { close(m.done); conn.Close() })
	err = conn.ExportMethodTable(map[string]any{
		"Subscribe": func() *dbus.Error { return nil },
		"GetUnit":   m.getUnit, "StartTransientUnit": m.startTransientUnit,
	}, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
	for name, props := range m.Properties {
		err = errors.Join(err, export(conn, unitPath(name), props))
	}
	err = errors.Join(err, own(conn, "org.freedesktop.systemd1"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Cgroup != "" {
		t.Cleanup(func() { m.clear(t) })
	}
}

func export(conn *dbus.Conn, path dbus.ObjectPath, props map[string]any) error {
	return conn.ExportMethodTable(map[string]any{
		"Get": func(iface, name string) (dbus.Variant, *dbus.Error) {
			v, ok := props[name]
			if !ok {
				return dbus.Variant{}, failed("org.freedesktop.DBus.Error.UnknownProperty", "no "+name)
			}
			return dbus.MakeVariant(v), nil
		},
	}, path, "org.freedesktop.DBus.Properties")
}

func own(conn *dbus.Conn, name string) error {
	r, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
	if err == nil && r != dbus.RequestNameReplyPrimaryOwner {
		err = fmt.Errorf("%s has an owner", name)
	}
	return err
}

func (m *Manager) getUnit(name string) (dbus.ObjectPath, *dbus.Error) {
	if m.Properties[name] == nil {
		return "", failed("org.freedesktop.systemd1.NoSuchUnit", "Unit "+name+" not loaded.")
	}
	return unitPath(name), nil
}

func (m *Manager) startTransientUnit(name, mode string, props []Property, _ []Auxiliary) (dbus.ObjectPath, *dbus.Error) {
	call := Call{Name: name, Mode: mode, Properties: map[string]any{}}
	for _, p := range props {
		call.Properties[p.Name] = p.Value.Value()
		if p.Name == "PIDs" {
			for _, pid := range p.Value.Value().([]uint32) {
				call.PIDs = append(call.PIDs, int(pid))
			}
		}
	}
	m.mu.Lock()
	m.calls = append(m.calls, call)
	m.mu.Unlock()
	if m.Silent {
		<-m.done
	}
	if m.Error != "" {
		return "", failed("org.freedesktop.DBus.Error.AccessDenied", m.Error)
	}
	go m.run(call)
	return "/job/7", nil
}

// run is the job: it moves the processes, then tells.
func (m *Manager) run(call Call) {
	if m.Hold != nil {
		<-m.Hold
	}
	result := m.Result
	if result == "" {
		result = "done"
	}
	if m.Jobless {
		return
	}
	m.conn.Emit("/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager.JobRemoved", uint32(6), dbus.ObjectPath("/job/6"), "other.service", "failed")
	if m.Cgroup != "" && result == "done" && !m.Idle {
		dir := filepath.Join(m.Cgroup, call.Name)
		err := os.Mkdir(dir, 0o755)
		for _, pid := range call.PIDs {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, pid), 0))
		}
		if err != nil {
			result = err.Error()
		}
	}
	m.conn.Emit("/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager.JobRemoved", uint32(7), dbus.ObjectPath("/job/7"), call.Name, result)
}

// clear removes the scopes' cgroups, which are empty by now or soon.
func (m *Manager) clear(t testing.TB) {
	for _, c := range m.Calls() {
		dir := filepath.Join(m.Cgroup, c.Name)
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			err := syscall.Rmdir(dir)
			if err == nil || errors.Is(err, syscall.ENOENT) {
				break
			}
			if time.Now().After(end) {
				t.Errorf("the scope's cgroup is not empty: %v", err)
				break
			}
		}
	}
}

// Login plays org.freedesktop.login1 with one user.
func Login(t testing.TB, address string, manager, user map[string]any) {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	err = errors.Join(
		conn.ExportMethodTable(map[string]any{
			"GetUser": func(uid uint32) (dbus.ObjectPath, *dbus.Error) {
				if uid != user["UID"] {
					return "", failed("org.freedesktop.login1.NoSuchUser", fmt.Sprintf("User ID %d is not logged in or lingering", uid))
				}
				return "/user", nil
			},
		}, "/org/freedesktop/login1", "org.freedesktop.login1.Manager"),
		export(conn, "/org/freedesktop/login1", manager),
		export(conn, "/user", user),
		own(conn, "org.freedesktop.login1"))
	if err != nil {
		t.Fatal(err)
	}
}
