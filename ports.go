package custody

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/port"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// The ports of a launch: reserved in its record before it runs, and looked at
// for real. Who holds one is found out by the listening socket and the
// processes that have it open; only what is proven to be a leftover of a dead
// owner is ended for it.

// ErrPortHeld is matched by the error of a start that reserves a port which
// can't be bound or is reserved already.
var ErrPortHeld = errors.New("port is held")

// PortHeldError says who holds a port.
type PortHeldError struct {
	Port    int
	PID     int      // of who listens on it; 0 if nobody does, or nobody that can be seen
	Command []string // its arguments as it shows them
	Launch  ID       // the launch that the holder is of; zero for a stranger
	Name    string   // of that launch

	text string
}

func (e *PortHeldError) Error() string { return e.text }

// Is matches ErrPortHeld.
func (e *PortHeldError) Is(target error) bool { return target == ErrPortHeld }

// tenant is who holds a port, and what is known of its launch.
type tenant struct {
	held *PortHeldError
	rec  *ledger.Record // nil for a stranger
	left bool           // its owner has died, and it was to die with it
}

// takePorts reserves the launch's ports, lowest first, so that of two starts
// that want the same ones one wins. The record with them is on disk.
func (o *Owner) takePorts(ctx context.Context, rec *ledger.Record) error {
	for _, n := range rec.Ports {
		if err := o.takePort(ctx, n, rec); err != nil {
			return err
		}
	}
	return nil
}

func (o *Owner) takePort(ctx context.Context, n int, rec *ledger.Record) error {
	pause := 20 * time.Millisecond
	for try := 0; ; try++ {
		err := o.store.ClaimPort(n, ledger.Claim{Scope: o.scope, Owner: o.id, Launch: rec.ID})
		if err == nil {
			err = port.Free(n)
		}
		var claimed *ledger.PortClaimedError
		if err == nil || !errors.As(err, &claimed) && !errors.Is(err, port.ErrHeld) {
			return err
		}
		if claimed != nil && claimed.Reason != "" {
			return &PortHeldError{Port: n, text: err.Error()}
		}
		t, err := o.tenantOf(ctx, n, claimed)
		switch {
		case err != nil:
			return err
		case t.left && !o.opt.WithoutSweep && try < 3:
			// What a dead owner left is ended first.
			o.sweepOwner(ctx, t.rec)
			continue
		case t.rec == nil && t.held.PID == 0 && try < 5:
			// Nobody to be seen: it may have ended while we looked.
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			case <-o.closing.Done():
				return ErrClosed
			}
			continue
		}
		return t.held
	}
}

func (o *Owner) sweepOwner(ctx context.Context, rec *ledger.Record) {
	ctx, cancel := o.whileOpen(ctx)
	defer cancel()
	// Its report tells nothing that the next look would not.
	sweep.Sweep(ctx, o.store, o.here, sweep.Request{Scope: rec.Scope, Owner: rec.Owner, Event: o.sweepEvent})
}

// tenantOf finds out who holds a port: the launch that reserves it, or whoever
// listens on it.
func (o *Owner) tenantOf(ctx context.Context, n int, claimed *ledger.PortClaimedError) (tenant, error) {
	hs, err := port.Holders(n)
	if err != nil {
		return tenant{}, err
	}
	defer port.Close(hs)
	// A stranger says more than a leftover beside it: it is in the way whatever
	// we end.
	var found *tenant
	for _, h := range hs {
		t := tenant{held: &PortHeldError{Port: n, PID: h.PID, Command: h.Command}}
		if h.Proc != nil {
			v, err := launchOf(ctx, o.listing(""), h.Proc)
			if err != nil {
				return t, err
			}
			if v != nil {
				t.of(o.scope, *v, fmt.Sprintf("is held by launch %s (%s)", shownLaunch(v.rec), h))
			}
		}
		if t.rec == nil {
			t.held.text = fmt.Sprintf("port %d is held by %s, which is not ours and is left alone; end it yourself, or take another port", n, h)
		}
		if found == nil || t.rec == nil || !t.left {
			found = &t
		}
		if t.rec == nil {
			break
		}
	}
	if found != nil {
		return *found, nil
	}
	t := tenant{held: &PortHeldError{Port: n}}
	if claimed != nil {
		err := visit(ctx, o.listing(claimed.Holder.Scope), func(v visited) error {
			if v.rec.ID == claimed.Holder.Launch {
				t.of(o.scope, v, fmt.Sprintf("is reserved for launch %s, which is not proven gone", shownLaunch(v.rec)))
			}
			return nil
		}, &[]SetAside{})
		if t.rec == nil {
			t.held.Launch = claimed.Holder.Launch
			t.held.text = claimed.Error()
		}
		return t, err
	}
	t.held.text = fmt.Sprintf("port %d can't be bound, though nobody listens on it: connections of an ended server may linger for a minute (TIME_WAIT), or a program has it for an outgoing connection; wait, or take a port outside net.ipv4.ip_local_port_range", n)
	return t, nil
}

func (o *Owner) listing(scope string) ListOptions {
	return ListOptions{Dir: o.store.Path(), Scope: scope, AllowNetworkFS: o.opt.AllowNetworkFS}
}

// of notes the launch that holds the port, for who asks from a scope.
func (t *tenant) of(scope string, v visited, how string) {
	r := v.rec
	t.rec, t.held.Launch, t.held.Name = r, r.ID, r.Name
	t.left = !v.alive && r.OnOwnerDeath == ledger.Kill && r.State != ledger.Released
	remedy := fmt.Sprintf("stop it with 'custody stop %s'", r.ID.Short())
	switch {
	case t.left:
		remedy = "its owner has died; 'custody sweep' ends it, or says why it can't be"
	case r.Name != "" && r.Scope == scope: // names are a scope's own
		remedy += ", or start under its name with --replace"
	}
	t.held.text = fmt.Sprintf("port %d %s; %s", t.held.Port, how, remedy)
}

// launchOf finds the launch of any scope that a process is proven to be of;
// nil if there is none.
func launchOf(ctx context.Context, opt ListOptions, p *host.Process) (*visited, error) {
	var found *visited
	err := visit(ctx, opt, func(v visited) error {
		if found != nil {
			return nil
		}
		if m, err := v.tree.Judge(p); err == nil && m.Finding.Verdict == proof.Owned {
			found = &v
		}
		return nil
	}, &[]SetAside{})
	return found, err
}

func shownLaunch(r *ledger.Record) string {
	if r.Name == "" {
		return r.ID.Short()
	}
	return fmt.Sprintf("%s %q", r.ID.Short(), r.Name)
}
