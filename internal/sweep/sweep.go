package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// Request says what to sweep.
type Request struct {
	Scope      string   // empty: every scope
	Owner      proof.ID // zero: every owner of the scope
	DryRun     bool
	Busy       bool   // leave an owner that another process is sweeping to it
	DeathTicks uint64 // boot clock at the owner's death, where it was seen
	Fork       Fork   // as in Options
	Event      func(proof.ID, stop.Sent)
	Told       func(proof.ID, stop.Progress)
}

// Report is what a sweep found and did.
type Report struct {
	Results []Result
	Odd     []ledger.Odd // entries set aside: never believed, never deleted
	Live    int          // owners that are alive, whose launches were not touched
	remains []remains
}

// parallel bounds how many launches end at once: a stop mostly waits.
const parallel = 64

// Sweep goes over the records of dead owners: prove, stop, confirm, clean,
// forget. A live owner holds its lock and is passed over; two sweepers exclude
// each other by the same lock.
func Sweep(ctx context.Context, store *ledger.Store, here host.Place, req Request) (Report, error) {
	var rep Report
	scopes := []string{req.Scope}
	if req.Scope == "" {
		var err error
		var odd []ledger.Odd
		if scopes, odd, err = store.Scopes(); err != nil {
			return rep, fmt.Errorf("sweep: %w", err)
		}
		rep.Odd = append(rep.Odd, odd...)
	}
	var dead []*deadOwner
	flush := func() {
		endAll(ctx, store, dead, here, req, &rep)
		dead = nil
	}
	defer func() {
		for _, o := range dead { // an error came between
			o.d.Close()
		}
	}()
	for _, scope := range scopes {
		owners, odd, err := store.Owners(scope)
		if err != nil {
			return rep, fmt.Errorf("sweep scope %s: %w", scope, err)
		}
		rep.Odd = append(rep.Odd, odd...)
		for _, id := range owners {
			if !req.Owner.IsZero() && id != req.Owner {
				continue
			}
			if err := ctx.Err(); err != nil {
				return rep, err
			}
			if o := openDead(ctx, store, scope, id, here, req, flush, &rep); o != nil {
				dead = append(dead, o)
			}
			if len(dead) >= batch {
				flush()
			}
		}
	}
	flush()
	if !req.DryRun {
		forgetSurplus(store, rep.remains, &rep)
	}
	for _, scope := range scopes {
		if !req.DryRun {
			// Litter is no reason to fail, and the next sweep tries again.
			store.Tidy(scope)
		}
	}
	return rep, nil
}

// batch bounds how many owners are held locked at once.
const batch = 128

// endAll ends the launches of dead owners. One walk of the process table serves
// them all, and none is made if no record needs it. It is made after their
// locks were taken: what an owner started while it lived is in it.
func endAll(ctx context.Context, store *ledger.Store, dead []*deadOwner, here host.Place, req Request, rep *Report) {
	since, cookie := uint64(math.MaxUint64), ""
	for _, o := range dead {
		for _, r := range o.recs {
			if since = min(since, r.IntentTicks); !r.Born {
				cookie = contain.CookieEnv
			}
		}
	}
	shared := contain.Tables(sync.OnceValues(func() (*host.Table, error) { return host.ReadMarked(cookie, since) }))
	for _, o := range dead {
		o.end(ctx, store, here, shared, req, rep)
		o.d.Close()
	}
}

// aside notes what can't be dealt with, unless somebody else swept it meanwhile.
func (rep *Report) aside(store *ledger.Store, scope string, id proof.ID, path string, err error) {
	if !errors.Is(err, fs.ErrNotExist) || store.Has(scope, id) {
		rep.Odd = append(rep.Odd, ledger.Odd{Path: path, Reason: err.Error()})
	}
}

// end ends the launches of one dead owner.
func (o *deadOwner) end(ctx context.Context, store *ledger.Store, here host.Place, shared contain.Tables, req Request, rep *Report) {
	d, recs := o.d, o.recs
	results := make([]Result, len(recs))
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, r := range recs {
		res, done := triage(d, r, here, shared, req)
		if results[i] = res; done {
			continue
		}
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			if unsettled(r, req) {
				time.Sleep(settling)
			}
			if r.OnOwnerDeath == ledger.Survive {
				switch {
				case r.Container != nil && r.Started():
					results[i] = endedContainer(ctx, d, r, here, req)
					return
				case r.Container == nil && !halfStarted(d, r):
					results[i] = survivor(ctx, d, r, here, req)
					return
				}
			}
			opt := Options{Death: true, DeathTicks: req.DeathTicks, Known: r, Fork: req.Fork}
			if req.Event != nil {
				opt.Event = func(s stop.Sent) { req.Event(r.ID, s) }
			}
			if req.Told != nil {
				opt.Told = func(p stop.Progress) { req.Told(r.ID, p) }
			}
			results[i] = End(ctx, d, r.ID, here, opt)
		}()
	}
	wg.Wait()
	for i, r := range recs {
		if results[i].Outcome == Ended && d.Has(r.ID) {
			rep.remains = append(rep.remains, remains{d.Scope, r.Name, d.ID, r.ID, r.EndedAt, len(rep.Results) + i})
		}
	}
	rep.Results = append(rep.Results, results...)
	endKeepers(recs, results, here)
	if !req.DryRun {
		crash.Here("before-owner-end")
		if err := store.RemoveOwner(d); err != nil && !errors.Is(err, fs.ErrExist) {
			rep.aside(store, d.Scope, d.ID, d.Path(), err)
		}
	}
}
