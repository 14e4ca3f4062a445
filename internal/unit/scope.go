package unit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// Scope asks for a transient scope unit around some processes: a unit, and so a
// cgroup, that does not end with the one we are in.
type Scope struct {
	Name        string // ends in .scope
	Description string
	PIDs        []int         // nobody has collected them, so that the numbers stay theirs
	Stop        time.Duration // between TERM and KILL if somebody stops the unit
}

// property is one of the (sv) of StartTransientUnit.
type property struct {
	Name  string
	Value dbus.Variant
}

type auxiliary struct {
	Name       string
	Properties []property
}

// StartScope returns when the processes are in the scope: after the manager's
// job is done, and their own cgroups say so. Root asks the system's
// manager, anybody else the user's.
//
// Errors: one that matches errors.ErrUnsupported where there is no manager;
// else what it answered, or what became of the job. Then the processes may still
// come into a scope of that name while they live.
func (s Surroundings) StartScope(ctx context.Context, sc Scope) error {
	if err := s.startScope(ctx, sc); err != nil {
		return fmt.Errorf("scope unit %s: %w", sc.Name, err)
	}
	return nil
}

func (s Surroundings) startScope(ctx context.Context, sc Scope) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience(20*time.Second))
	defer cancel()
	c, _, err := s.manager(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	removed := make(chan *dbus.Signal, 16)
	c.Signal(removed)
	err = c.AddMatchSignalContext(ctx, dbus.WithMatchSender(systemd), dbus.WithMatchInterface(manager), dbus.WithMatchMember("JobRemoved"))
	if err != nil {
		return err
	}
	m := c.Object(systemd, "/org/freedesktop/systemd1")
	// A manager that nobody subscribed to may send no signals. It refuses who
	// subscribed already; what else is wrong, the next call will tell.
	m.CallWithContext(ctx, manager+".Subscribe", 0)

	job, err := s.startTransient(ctx, m, sc)
	if err != nil {
		return told(ctx, err)
	}
	for {
		select {
		case <-ctx.Done():
			return told(ctx, ctx.Err())
		case sig, ok := <-removed:
			if !ok {
				return errors.New("the service manager's D-Bus went away")
			}
			var id uint32
			var path dbus.ObjectPath
			var unit, result string
			if dbus.Store(sig.Body, &id, &path, &unit, &result) != nil || path != job {
				continue
			}
			if result != "done" {
				return fmt.Errorf("the service manager's job ended with %q", result)
			}
			return s.within(sc)
		}
	}
}

// Manager says which service manager StartScope would ask: system or user.
func (s Surroundings) Manager(ctx context.Context) (whose string, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience(question))
	defer cancel()
	c, whose, err := s.manager(ctx)
	if err == nil {
		c.Close()
	}
	return whose, err
}

// manager connects to the manager that answers for us.
func (s Surroundings) manager(ctx context.Context) (c *dbus.Conn, whose string, err error) {
	whose, buses := "user", s.userBus(os.Geteuid())
	if os.Geteuid() == 0 {
		whose, buses = "system", s.systemBus()
	}
	if c, err = dial(ctx, buses); err == nil {
		if err = ours(ctx, c); err != nil {
			c.Close()
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, whose, told(ctx, err) // a busy one is no missing one
	}
	if err != nil {
		return nil, whose, fmt.Errorf("no %s service manager can be asked for one: %w (%w)", whose, err, errors.ErrUnsupported)
	}
	return c, whose, nil
}

// ours returns nil if a manager of our own PID namespace is on the bus. One of
// another, given into a container, would move another process by our number.
func ours(ctx context.Context, c *dbus.Conn) error {
	const bus = "org.freedesktop.DBus."
	var owner string
	if err := c.BusObject().CallWithContext(ctx, bus+"GetNameOwner", 0, systemd).Store(&owner); err != nil {
		return err
	}
	var pid uint32
	err := c.BusObject().CallWithContext(ctx, bus+"GetConnectionUnixProcessID", 0, c.Names()[0]).Store(&pid)
	if err == nil && int(pid) != os.Getpid() {
		err = fmt.Errorf("its D-Bus is of another PID namespace: it knows us as process %d, we are %d", pid, os.Getpid())
	}
	return err
}

// startTransient asks for the unit (the properties of systemd.scope(5) and
// systemd.kill(5)) and returns the job that makes it.
func (s Surroundings) startTransient(ctx context.Context, m dbus.BusObject, sc Scope) (job dbus.ObjectPath, err error) {
	var pids []uint32
	for _, pid := range sc.PIDs {
		pids = append(pids, uint32(pid))
	}
	err = m.CallWithContext(ctx, manager+".StartTransientUnit", 0, sc.Name, "fail", []property{
		{"Description", dbus.MakeVariant(sc.Description)},
		{"PIDs", dbus.MakeVariant(pids)},
		{"Delegate", dbus.MakeVariant(true)}, // the launch's own cgroup is made below
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")},
		{"KillMode", dbus.MakeVariant("control-group")},
		{"TimeoutStopUSec", dbus.MakeVariant(uint64(max(sc.Stop, time.Second) / time.Microsecond))},
	}, []auxiliary{}).Store(&job)
	return job, err
}

// within tells whether the processes are where the manager says it put them.
func (s Surroundings) within(sc Scope) error {
	for _, pid := range sc.PIDs {
		b, err := s.proc(pid, "cgroup")
		if err != nil {
			return err
		}
		in := false
		for line := range strings.Lines(string(b)) {
			in = in || slices.Contains(strings.Split(strings.TrimSuffix(line, "\n"), "/"), sc.Name)
		}
		if !in {
			return fmt.Errorf("the service manager says it is done, and process %d is not in it", pid)
		}
	}
	return nil
}

// told says what a run out context means here.
func told(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("the service manager does not answer: %w", ctx.Err())
	}
	return err
}
