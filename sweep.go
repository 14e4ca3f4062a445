package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// SweepOptions say what Sweep goes over. The zero value is every scope of the
// default state directory.
type SweepOptions struct {
	Dir            string
	Scope          string
	DryRun         bool // report what would be done, change nothing
	AllowNetworkFS bool
	OnEvent        func(Event)
	OnProgress     func(StopProgress) // as in StopOptions; from several goroutines
}

// SetAside is an entry of the state directory that was not believed: it is
// reported, nothing is signalled for it, and it is not deleted.
type SetAside struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// SweepReport is what a sweep found and did.
type SweepReport struct {
	Launches   []StopResult `json:"launches"`
	SetAside   []SetAside   `json:"set_aside"`
	LiveOwners int          `json:"live_owners"` // whose launches were not touched
}

// Incomplete returns the launches that could not be ended.
func (r SweepReport) Incomplete() []StopResult {
	var out []StopResult
	for _, l := range r.Launches {
		if l.Outcome == string(stop.Incomplete) {
			out = append(out, l)
		}
	}
	return out
}

// Sweep goes over the records of dead owners: prove, stop, confirm, free,
// forget. Live owners are not touched. A missing state directory is an empty
// one.
func Sweep(ctx context.Context, opt SweepOptions) (SweepReport, error) {
	empty := SweepReport{Launches: []StopResult{}, SetAside: []SetAside{}}
	store, here, err := openState(opt.Dir, opt.AllowNetworkFS)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, err
	}
	defer store.Close()
	req := sweep.Request{Scope: opt.Scope, DryRun: opt.DryRun}
	if opt.OnEvent != nil {
		req.Event = func(id proof.ID, s stop.Sent) { opt.OnEvent(sentEvent(id, "", s)) }
	}
	if opt.OnProgress != nil {
		req.Told = func(id proof.ID, p stop.Progress) { opt.OnProgress(stopProgress(id, "", p)) }
	}
	rep, err := sweep.Sweep(ctx, store, here, req)
	return sweepReport(rep), err
}

func sweepReport(rep sweep.Report) SweepReport {
	out := SweepReport{Launches: []StopResult{}, SetAside: []SetAside{}, LiveOwners: rep.Live}
	for _, r := range rep.Results {
		out.Launches = append(out.Launches, stopResult(r))
	}
	out.SetAside = append(out.SetAside, setAside(rep.Odd)...)
	return out
}

func setAside(odd []ledger.Odd) []SetAside {
	out := make([]SetAside, 0, len(odd))
	for _, o := range odd {
		out = append(out, SetAside(o))
	}
	return out
}

// openState opens the state directory for somebody who is no owner. Only a
// missing state directory matches fs.ErrNotExist.
func openState(dir string, network bool) (*ledger.Store, host.Place, error) {
	path, err := StateDir(dir)
	if err != nil {
		return nil, host.Place{}, err
	}
	store, err := ledger.OpenStore(path, ledger.Options{AllowNetworkFS: network})
	if err != nil {
		return nil, host.Place{}, err
	}
	here, err := host.Here()
	if err != nil {
		store.Close()
		if errors.Is(err, fs.ErrNotExist) {
			// A missing /proc is no empty state directory.
			err = fmt.Errorf("can't tell where we are: %v", err)
		}
		return nil, host.Place{}, err
	}
	return store, here, nil
}
