package unit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// A service manager is asked over D-Bus: org.freedesktop.systemd1(5) and
// org.freedesktop.login1(5).

const (
	systemd  = "org.freedesktop.systemd1"
	manager  = systemd + ".Manager"
	login    = "org.freedesktop.login1"
	getProp  = "org.freedesktop.DBus.Properties.Get"
	question = 2 * time.Second
)

// systemBus lists where the system bus may listen.
func (s Surroundings) systemBus() []string {
	if s.SystemBus != "" {
		return []string{s.SystemBus}
	}
	return []string{os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"), "unix:path=" + s.file("run/dbus/system_bus_socket")}
}

// userBus lists where the bus of a user may listen. What our environment says
// is our own user's.
func (s Surroundings) userBus(uid int) []string {
	if s.UserBus != "" {
		return []string{s.UserBus}
	}
	var at []string
	if uid == os.Geteuid() {
		at = append(at, os.Getenv("DBUS_SESSION_BUS_ADDRESS"))
		if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
			at = append(at, "unix:path="+dir+"/bus")
		}
	}
	return append(at, "unix:path="+s.file(fmt.Sprintf("run/user/%d/bus", uid)))
}

// dial connects to the first bus that answers. Only sockets of this machine
// are tried: what stands behind another address knows other processes by our
// numbers. No descriptors are negotiated: nobody is to send us any, and godbus
// 5.2.4 panics when an array of them arrives.
func dial(ctx context.Context, addresses []string) (*dbus.Conn, error) {
	err := errors.New("no D-Bus address")
	for _, a := range addresses {
		path, ok := socket(a)
		if !ok {
			continue
		}
		var d net.Dialer
		var to net.Conn
		if to, err = d.DialContext(ctx, "unix", path); err != nil {
			continue
		}
		var c *dbus.Conn
		if c, err = dbus.NewConn(to, dbus.WithContext(ctx)); err != nil {
			to.Close()
			continue
		}
		if err = c.Auth(nil); err == nil {
			err = c.Hello()
		}
		if err == nil {
			return c, nil
		}
		c.Close()
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, fmt.Errorf("no D-Bus answers: %w", err)
}

// socket reads unix:path=PATH and unix:abstract=NAME of the D-Bus
// specification's server addresses, with what else stands there (the guid).
func socket(address string) (string, bool) {
	list, ok := strings.CutPrefix(address, "unix:")
	if !ok || strings.Contains(list, ";") {
		return "", false
	}
	for kv := range strings.SplitSeq(list, ",") {
		key, value, _ := strings.Cut(kv, "=")
		value, err := url.PathUnescape(value)
		switch {
		case err != nil || value == "":
		case key == "path":
			return value, true
		case key == "abstract":
			return "@" + value, true
		}
	}
	return "", false
}

// killMode asks for what becomes of the processes of the innermost unit.
func (s Surroundings) killMode(ctx context.Context, at place) (mode string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience(question))
	defer cancel()
	buses := s.systemBus()
	if at.user != "" {
		buses = s.userBus(at.uid)
	}
	c, err := dial(ctx, buses)
	if err != nil {
		return "", err
	}
	defer c.Close()
	var path dbus.ObjectPath
	err = c.Object(systemd, "/org/freedesktop/systemd1").CallWithContext(ctx, manager+".GetUnit", 0, at.inner()).Store(&path)
	if err != nil {
		return "", err
	}
	// A manager of another container may have a unit of that name.
	var group string
	unit := c.Object(systemd, path)
	if err := get(ctx, unit, systemd+".Service", "ControlGroup", &group); err != nil {
		return "", err
	}
	if group != at.path {
		return "", fmt.Errorf("the manager that answers has it at %q, we are in %q", group, at.path)
	}
	err = get(ctx, unit, systemd+".Service", "KillMode", &mode)
	return mode, err
}

// logins asks logind about a user.
func (s Surroundings) logins(ctx context.Context, uid int) (l logins, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience(question))
	defer cancel()
	c, err := dial(ctx, s.systemBus())
	if err != nil {
		return l, err
	}
	defer c.Close()
	m := c.Object(login, "/org/freedesktop/login1")
	var user dbus.ObjectPath
	if err := m.CallWithContext(ctx, login+".Manager.GetUser", 0, uint32(uid)).Store(&user); err != nil {
		return l, err
	}
	u := c.Object(login, user)
	return l, errors.Join(
		get(ctx, m, login+".Manager", "KillUserProcesses", &l.kill),
		get(ctx, m, login+".Manager", "KillOnlyUsers", &l.only),
		get(ctx, m, login+".Manager", "KillExcludeUsers", &l.exclude),
		get(ctx, u, login+".User", "Name", &l.name),
		get(ctx, u, login+".User", "Linger", &l.linger),
	)
}

func get(ctx context.Context, o dbus.BusObject, iface, name string, into any) error {
	var v dbus.Variant
	if err := o.CallWithContext(ctx, getProp, 0, iface, name).Store(&v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := v.Store(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
