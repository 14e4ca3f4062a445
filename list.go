package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// ListOptions say what List shows. The zero value is every scope of the
// default state directory.
type ListOptions struct {
	Dir            string
	Scope          string
	AllowNetworkFS bool
}

// OwnerInfo is what can be told of a launch's owner.
type OwnerInfo struct {
	ID    ID   `json:"id"`
	PID   int  `json:"pid"`
	Alive bool `json:"alive"`
}

// LaunchInfo is one launch as List shows it.
type LaunchInfo struct {
	ID           ID                `json:"id"`
	Scope        string            `json:"scope"`
	Name         string            `json:"name"`
	State        string            `json:"state"` // intent, running, stopping, exited, released, gone, foreign, unsure
	Level        Level             `json:"level"`
	OnOwnerDeath OnOwnerDeath      `json:"on_owner_death"`
	Owner        OwnerInfo         `json:"owner"`
	PID          int               `json:"pid"`
	PGID         int               `json:"pgid"`
	StartedAt    time.Time         `json:"started_at"`
	Command      []string          `json:"command"`
	Labels       map[string]string `json:"labels"`
	Dirs         []string          `json:"dirs"`
	PIDs         []int             `json:"members"`   // pids of the proven members
	Members      []Member          `json:"processes"` // the same, with what is known of each

	KeeperPID int      `json:"keeper_pid,omitempty"`
	Verdict   Verdict  `json:"verdict"`
	Reason    string   `json:"reason"`
	Suspects  []Member `json:"suspects,omitempty"` // tied to the launch, but not proven
}

// Listing is what List found.
type Listing struct {
	Launches []LaunchInfo
	SetAside []SetAside
}

// List looks at every recorded launch and its members. It changes nothing. A
// missing state directory is an empty one.
func List(ctx context.Context, opt ListOptions) (Listing, error) {
	out := Listing{Launches: []LaunchInfo{}, SetAside: []SetAside{}}
	err := visit(ctx, opt, func(v visited) error {
		s, err := v.tree.Look(v.rec.Cgroup == nil)
		if err != nil {
			return err
		}
		defer s.Close()
		out.Launches = append(out.Launches, launchInfo(v, s))
		return nil
	}, &out.SetAside)
	sort.Slice(out.Launches, func(i, j int) bool { return out.Launches[i].StartedAt.Before(out.Launches[j].StartedAt) })
	return out, err
}

// visited is one record with its owner, during a visit.
type visited struct {
	store *ledger.Store
	dir   *ledger.Owner
	owner *ledger.OwnerRecord
	alive bool
	rec   *ledger.Record
	here  host.Place
	tree  *contain.Tree
}

// visit calls f for every record. One walk of the process table serves all.
func visit(ctx context.Context, opt ListOptions, f func(visited) error, aside *[]SetAside) error {
	return visitAll(ctx, opt, nil, f, aside)
}

// visitAll is visit that calls owner for every owner, before its records.
func visitAll(ctx context.Context, opt ListOptions, owner func(visited) error, f func(visited) error, aside *[]SetAside) error {
	store, here, err := openState(opt.Dir, opt.AllowNetworkFS)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer store.Close()
	note := func(odd []ledger.Odd) { *aside = append(*aside, setAside(odd)...) }
	scopes, odd, err := store.Scopes()
	if err != nil {
		return err
	}
	note(odd)
	tables := contain.Tables(sync.OnceValues(host.ReadTable))
	for _, scope := range scopes {
		if opt.Scope != "" && scope != opt.Scope {
			continue
		}
		owners, odd, err := store.Owners(scope)
		if err != nil {
			return err
		}
		note(odd)
		for _, id := range owners {
			if err := ctx.Err(); err != nil {
				return err
			}
			odd, err := visitOwner(store, scope, id, here, tables, owner, f)
			if err != nil {
				return err
			}
			note(odd)
		}
	}
	return nil
}

func visitOwner(store *ledger.Store, scope string, id proof.ID, here host.Place, tables contain.Tables, each, f func(visited) error) ([]ledger.Odd, error) {
	d, err := store.OpenOwner(scope, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // ended meanwhile
	}
	if err != nil {
		return []ledger.Odd{{Path: scope + "/" + id.String(), Reason: err.Error()}}, nil
	}
	defer d.Close()
	owner, err := d.ReadOwner()
	if errors.Is(err, fs.ErrNotExist) && !store.Has(scope, id) {
		return nil, nil
	}
	if err != nil {
		return []ledger.Odd{{Path: d.Path() + "/owner.json", Reason: err.Error()}}, nil
	}
	recs, odd, err := d.Records()
	if err != nil {
		return append(odd, ledger.Odd{Path: d.Path(), Reason: err.Error()}), nil
	}
	alive := sweep.OwnerAlive(owner, here) == proof.Yes && !owner.Closed
	if each != nil {
		if err := each(visited{store: store, dir: d, owner: owner, alive: alive, here: here}); err != nil {
			return odd, err
		}
	}
	for _, r := range recs {
		err := f(visited{store: store, dir: d, owner: owner, alive: alive, rec: r, here: here, tree: contain.Of(r, here, tables)})
		if err != nil {
			return odd, err
		}
	}
	return odd, nil
}

func launchInfo(v visited, s *contain.Sighting) LaunchInfo {
	r := v.rec
	info := LaunchInfo{
		ID: r.ID, Scope: r.Scope, Name: r.Name, State: string(r.State), Level: Level(r.Level),
		OnOwnerDeath: OnOwnerDeath(r.OnOwnerDeath), StartedAt: r.StartedAt, Command: r.Command,
		Owner:  OwnerInfo{ID: r.Owner, PID: v.owner.Process.PID, Alive: v.alive},
		Labels: r.Labels, Dirs: []string{}, Members: members(s), Verdict: s.Verdict, Reason: s.Reason,
	}
	info.PIDs = make([]int, len(info.Members))
	for i, m := range info.Members {
		info.PIDs[i] = m.PID
	}
	if info.Labels == nil {
		info.Labels = map[string]string{}
	}
	if r.Leader != nil {
		info.PID, info.PGID = r.Leader.PID, r.Leader.PGID
	}
	if r.Keeper != nil {
		info.KeeperPID = r.Keeper.PID
	}
	for _, a := range r.Assets {
		info.Dirs = append(info.Dirs, asset.Inside(a))
	}
	if s.Verdict != proof.Owned && r.State != ledger.Released {
		info.State = s.Verdict.String()
	}
	for _, p := range s.Suspects {
		info.Suspects = append(info.Suspects, Member{PID: p.PID, Comm: p.Comm, Command: []string{}, Proof: finding(p.Finding)})
	}
	return info
}

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

func (v visited) matches(launch string) bool {
	return v.rec.Name != "" && v.rec.Name == launch ||
		len(launch) >= 4 && strings.HasPrefix(v.rec.ID.String(), launch)
}

// only returns the one launch found.
func only(launch string, found []visited, aside []SetAside) (visited, error) {
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if len(aside) > 0 {
			return visited{}, fmt.Errorf("launch %q: %w; %d records could not be believed, 'custody sweep --dry-run' names them", launch, ErrNotFound, len(aside))
		}
		return visited{}, fmt.Errorf("launch %q: %w; 'custody ls' shows what is owned", launch, ErrNotFound)
	}
	var ids []string
	for _, v := range found {
		ids = append(ids, v.rec.ID.String())
	}
	return visited{}, fmt.Errorf("launch %q: %d launches match, name one by its id: %s", launch, len(found), strings.Join(ids, " "))
}

// SignalName returns a signal's name without SIG.
func SignalName(sig syscall.Signal) string { return stop.SignalName(sig) }

// Release hands a launch of any owner out of custody; see Launch.Release.
func Release(ctx context.Context, launch string, opt ListOptions) (ID, error) {
	return change(ctx, launch, opt, "release", func(d *ledger.Owner, id ID, _ host.Place) error {
		return sweep.Release(ctx, d, id)
	})
}

// Adopt takes a released launch back into custody, if a live process is proven
// to be of it. If its owner is dead by now, the next sweep ends it.
func Adopt(ctx context.Context, launch string, opt ListOptions) (ID, error) {
	return change(ctx, launch, opt, "adopt", func(d *ledger.Owner, id ID, here host.Place) error {
		return sweep.Reclaim(ctx, d, id, here)
	})
}

// change finds one launch and changes its record.
func change(ctx context.Context, launch string, opt ListOptions, verb string, f func(*ledger.Owner, ID, host.Place) error) (ID, error) {
	v, d, err := find(ctx, launch, opt)
	if err != nil {
		return ID{}, err
	}
	defer d.Close()
	if err := f(d, v.rec.ID, v.here); err != nil {
		return v.rec.ID, fmt.Errorf("%s launch %s: %w", verb, v.rec.ID.Short(), err)
	}
	return v.rec.ID, nil
}

// find finds the one launch that is meant, and opens its owner's directory.
func find(ctx context.Context, launch string, opt ListOptions) (visited, *ledger.Owner, error) {
	var found []visited
	var aside []SetAside
	err := visit(ctx, opt, func(v visited) error {
		if v.matches(launch) {
			found = append(found, v)
		}
		return nil
	}, &aside)
	if err != nil {
		return visited{}, nil, err
	}
	v, err := only(launch, found, aside)
	if err != nil {
		return visited{}, nil, err
	}
	d, err := ledger.OpenOwnerAt(v.dir.Path())
	return v, d, err
}
