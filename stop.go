package custody

import (
	"context"
	"syscall"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
)

// StopOptions of Stop.
type StopOptions struct {
	Dir            string
	Scope          string  // where to look for a name; empty: every scope
	Phases         []Phase // instead of the launch's own plan
	AllowNetworkFS bool
	OnEvent        func(Event)
	OnProgress     func(StopProgress) // called when a phase begins and when fewer are left; must not block
}

// Stop stops a launch of any owner, by its id, an unambiguous start of it (at
// least four digits) or its name, and frees what it owned.
//
// The error matches ErrNotFound if no record names it, ErrIncomplete if it
// could not be ended.
func Stop(ctx context.Context, launch string, opt StopOptions) (StopResult, error) {
	v, d, err := find(ctx, launch, ListOptions{Dir: opt.Dir, Scope: opt.Scope, AllowNetworkFS: opt.AllowNetworkFS})
	if err != nil {
		return StopResult{}, err
	}
	defer d.Close()
	dead, cancel := ownerDeath(v)
	defer cancel()
	o := sweep.Options{Known: v.rec, OwnerDead: dead}
	for _, p := range opt.Phases {
		o.Phases = append(o.Phases, stop.Phase(p))
	}
	if opt.OnEvent != nil {
		o.Event = func(s stop.Sent) { opt.OnEvent(sentEvent(v.rec.ID, v.rec.Name, s)) }
	}
	if opt.OnProgress != nil {
		o.Told = func(p stop.Progress) { opt.OnProgress(stopProgress(v.rec.ID, v.rec.Name, p)) }
	}
	res := stopResult(sweep.End(ctx, d, v.rec.ID, v.here, o))
	if res.Outcome != string(stop.Gone) {
		return res, &IncompleteError{Launch: v.rec.ID, Result: res}
	}
	return res, nil
}

// ownerDeath is closed when the launch's living owner dies: then its launch is
// not waited for as patiently as before.
func ownerDeath(v visited) (<-chan struct{}, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	if !v.alive || v.rec.OnOwnerDeath == ledger.Survive {
		return nil, cancel
	}
	p, err := host.Recognise(v.owner.Process)
	if err != nil {
		return nil, cancel
	}
	dead := make(chan struct{})
	go func() {
		defer p.Close()
		if p.WaitExit(ctx) == nil {
			close(dead)
		}
	}()
	return dead, cancel
}

// SignalName returns a signal's name without SIG.
func SignalName(sig syscall.Signal) string { return stop.SignalName(sig) }
