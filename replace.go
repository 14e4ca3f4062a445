package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/port"
)

// A start that replaces the launch under its name: that one is stopped, and
// the new one starts only after it is proven gone and its ports can be bound.

// lingering is how long an ended launch's ports are waited for. Connections
// that it closed itself stay in TIME_WAIT for a minute, and hold the port if it
// did not set SO_REUSEADDR (Linux).
const lingering = 75 * time.Second

// replace stops the launch that holds the name of rec. A stranger on a port
// that rec needs is found before, and then nothing is stopped.
func (o *Owner) replace(ctx context.Context, holder ledger.Claim, rec *ledger.Record) error {
	ctx, cancel := o.whileOpen(ctx)
	defer cancel()
	fail := func(err error) error {
		if o.closing.Err() != nil {
			err = ErrClosed
		}
		return fmt.Errorf("replace launch %s: %w", holder.Launch.Short(), err)
	}
	for _, n := range rec.Ports {
		if err := port.Free(n); errors.Is(err, port.ErrHeld) {
			t, err := o.tenantOf(ctx, n, nil)
			if err != nil {
				return fail(err)
			}
			if t.held.PID != 0 && t.held.Launch != holder.Launch && !t.left {
				return fail(fmt.Errorf("%w; it was not stopped", t.held))
			}
		} else if err != nil {
			return fail(err)
		}
	}
	ports := append([]int{}, rec.Ports...)
	v, d, err := find(ctx, holder.Launch.String(), o.listing(o.scope))
	if errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended by itself
	}
	if err != nil {
		return fail(err)
	}
	d.Close()
	ports = append(ports, v.rec.Ports...)
	o.mu.Lock()
	l := o.launches[holder.Launch]
	o.mu.Unlock()
	if l != nil {
		_, err = l.Stop(ctx)
	} else {
		_, err = Stop(ctx, holder.Launch.String(), StopOptions{Dir: o.store.Path(), Scope: o.scope, AllowNetworkFS: o.opt.AllowNetworkFS, OnEvent: o.opt.OnEvent})
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fail(err)
	}
	for _, n := range ports {
		if err := bindable(ctx, n); err != nil {
			return fail(err)
		}
	}
	return nil
}

// bindable waits until what an ended launch left in the kernel lets go of a
// port. Whoever listens on it is another one: that is for takePorts to say.
func bindable(ctx context.Context, n int) error {
	pause := 5 * time.Millisecond
	for end := time.Now().Add(lingering); ; pause = min(2*pause, 250*time.Millisecond) {
		err := port.Free(n)
		if !errors.Is(err, port.ErrHeld) {
			return nil
		}
		if hs, err := port.Holders(n); err != nil || len(hs) > 0 {
			port.Close(hs)
			return nil
		}
		if time.Now().After(end) {
			return nil // takePorts says so
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
