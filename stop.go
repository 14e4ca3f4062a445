package custody

import (
	"context"
	"syscall"

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
	o := sweep.Options{Known: v.rec}
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

// SignalName returns a signal's name without SIG.
func SignalName(sig syscall.Signal) string { return stop.SignalName(sig) }
