package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/custody-project/custody/internal/asset"
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
	DeathTicks uint64 // boot clock at the owner's death, where it was seen
	Event      func(proof.ID, stop.Sent)
	Told       func(proof.ID, stop.Progress)
}

// Report is what a sweep found and did.
type Report struct {
	Results []Result
	Odd     []ledger.Odd // entries set aside: never believed, never deleted
	Live    int          // owners that are alive, whose launches were not touched
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
	// One walk of the process table serves the whole sweep, and none is made
	// if no record needs it.
	shared := contain.Tables(sync.OnceValues(host.ReadTable))
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
			sweepOwner(ctx, store, scope, id, here, shared, req, &rep)
		}
		if !req.DryRun {
			// Litter is no reason to fail, and the next sweep tries again.
			store.Tidy(scope)
		}
	}
	return rep, nil
}

func sweepOwner(ctx context.Context, store *ledger.Store, scope string, id proof.ID, here host.Place, shared contain.Tables, req Request, rep *Report) {
	aside := func(path string, err error) {
		if !errors.Is(err, fs.ErrNotExist) || store.Has(scope, id) { // else swept by somebody else meanwhile
			rep.Odd = append(rep.Odd, ledger.Odd{Path: path, Reason: err.Error()})
		}
	}
	d, err := store.OpenOwner(scope, id)
	if err != nil {
		aside(scope+"/"+id.String(), err)
		return
	}
	defer d.Close()
	locked, err := lockDead(ctx, d, here)
	if err != nil {
		aside(d.Path(), err)
		return
	}
	if !locked {
		rep.Live++
		return
	}
	rec, err := d.ReadOwner()
	if err != nil {
		aside(d.Path()+"/owner.json", err)
		return
	}
	if alive := OwnerAlive(rec, here); alive != proof.No && !rec.Closed {
		// The lock is free and yet its process lives, or it is of a place we
		// can't look into: then it is not ours to clean up after.
		if alive == proof.Unknown {
			untouched(d, rec, here, rep)
			return
		}
		aside(d.Path(), fmt.Errorf("its lock is free, but process %d of its owner lives", rec.Process.PID))
		return
	}
	crash.Here("sweep-locked")
	recs, odd, err := d.Records()
	if err != nil {
		aside(d.Path(), err)
		return
	}
	rep.Odd = append(rep.Odd, odd...)
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
				results[i] = survivor(ctx, d, r, here, req)
				return
			}
			opt := Options{Death: true, DeathTicks: req.DeathTicks, Known: r}
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
	rep.Results = append(rep.Results, results...)
	endKeepers(recs, results, here)
	if !req.DryRun {
		crash.Here("before-owner-end")
		if err := store.RemoveOwner(d); err != nil && !errors.Is(err, fs.ErrExist) {
			aside(d.Path(), err)
		}
	}
}

const lockPatience = 2 * time.Minute

// lockDead takes the lock of a dead owner. It returns false while the owner
// lives; another sweeper is waited for, so that a sweep that has returned has
// swept, whoever did the work. What the other one removed is fs.ErrNotExist.
// It is not waited for longer than lockPatience beyond ctx: a process that was
// stopped by a signal can hold a lock for good.
func lockDead(ctx context.Context, d *ledger.Owner, here host.Place) (bool, error) {
	pause := time.Millisecond
	for end := time.Now().Add(lockPatience); ; {
		locked, err := d.TryLock()
		if locked || err != nil {
			return locked, err
		}
		rec, err := d.ReadOwner()
		if errors.Is(err, fs.ErrNotExist) {
			return false, err // swept
		}
		if err != nil || OwnerAlive(rec, here) != proof.No && !rec.Closed {
			return false, nil // alive, or nobody we can tell
		}
		if time.Now().After(end) {
			return false, fmt.Errorf("its owner is dead, but %s has held its lock for %v; if that is stopped or hangs, end it and sweep again", d.Holder(), lockPatience)
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("%s is sweeping it: %w", d.Holder(), ctx.Err())
		case <-time.After(pause):
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// triage decides about one record from one look, and ends it right away if
// nothing of it lives. It reports false if the launch must be stopped.
func triage(d *ledger.Owner, r *ledger.Record, here host.Place, shared contain.Tables, req Request) (Result, bool) {
	res := Result{ID: r.ID, Name: r.Name}
	read := r
	released := r.State == ledger.Released
	if released {
		// Only whether anything of it lives is of interest: its record goes
		// with its last process.
		taken := *r
		taken.State = ledger.Running
		r = &taken
	}
	tree := contain.Of(r, here, shared)
	tree.DeathTicks = req.DeathTicks
	// Where the leader lives there is nothing to decide, and End looks anyway.
	if !released && !req.DryRun && tree.LeaderLives() {
		if res.Verdict = proof.Owned; r.OnOwnerDeath == ledger.Survive {
			res.Outcome, res.Reason = Survives, "its leader lives"
			return res, true
		}
		return res, false
	}
	// The table may show what left the group. A cgroup can be left only by who
	// may write another one: then the table is asked only before something is
	// freed that the one who left may still use.
	s, err := tree.Look(r.Cgroup == nil || len(r.Assets) > 0)
	if err != nil {
		res.Outcome, res.Reason = string(stop.Incomplete), err.Error()
		return res, true
	}
	defer s.Close()
	res.Verdict, res.Reason = s.Verdict, s.Reason
	switch {
	case released && s.Verdict != proof.Gone:
		res.Verdict, res.Outcome, res.Reason = proof.Foreign, Released, "released from custody"
		return res, true
	case s.Verdict == proof.Foreign:
		res.Outcome = string(stop.Foreign)
		return res, true
	case s.Verdict == proof.Owned && r.OnOwnerDeath == ledger.Survive:
		res.Outcome = Survives
		return res, true
	case req.DryRun:
		res.Outcome = map[proof.Verdict]string{proof.Owned: WouldStop, proof.Gone: WouldFree}[s.Verdict]
		if res.Outcome == "" {
			res.Outcome = string(stop.Incomplete)
		}
		for _, a := range r.Assets {
			res.Freed = append(res.Freed, asset.Inside(a))
		}
		for _, m := range s.Members {
			res.Survivors = append(res.Survivors, stop.Survivor{PID: m.Row.PID, Why: m.Finding.Reason})
		}
		for _, p := range s.Suspects {
			res.Survivors = append(res.Survivors, stop.Survivor{PID: p.PID, Why: "unsure: " + p.Finding.Reason})
		}
		return res, true
	case s.Verdict == proof.Gone && !s.Vanished && !unsettled(r, req):
		release, ok, err := d.TryHoldStop(r.ID)
		if err != nil || !ok {
			return res, false // somebody else is at it: wait for them
		}
		defer release()
		if now, err := d.Read(r.ID); err == nil && !reflect.DeepEqual(now, read) {
			return res, false // it went on since we looked
		}
		res.Outcome = string(stop.Gone)
		if lead := r.Leader; lead != nil && tree.Recycled() {
			res.Reason = "pid reused"
		}
		if err := conclude(d, r, &res); err != nil {
			res.Outcome, res.Reason = string(stop.Incomplete), err.Error()
		}
		return res, true
	}
	return res, false
}

// survivor looks again at a launch that is to live on: it is concluded once
// nothing of it is left, and never signalled.
func survivor(ctx context.Context, d *ledger.Owner, r *ledger.Record, here host.Place, req Request) Result {
	for range 40 {
		now, err := d.Read(r.ID)
		if errors.Is(err, fs.ErrNotExist) {
			return Result{ID: r.ID, Name: r.Name, Verdict: proof.Gone, Outcome: string(stop.Gone), Reason: "its record has ended"}
		}
		if err == nil {
			if res, done := triage(d, now, here, contain.Fresh, req); done && res.Verdict != proof.Unsure {
				return res
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return Result{ID: r.ID, Name: r.Name, Outcome: string(stop.Incomplete), Reason: "it is to live on, and can't be told to be gone"}
}

// settling is how long a forked child may take until it has executed its
// program, and with it has got the environment by which it is known.
const settling = 200 * time.Millisecond

// unsettled reports whether a child may be on its way that nothing ties to the
// launch yet: its owner died in the very moment of the fork.
func unsettled(r *ledger.Record, req Request) bool {
	const tick = 10 * time.Millisecond
	return r.State == ledger.Intent && r.Leader == nil &&
		host.StartNow() < max(r.IntentTicks, req.DeathTicks)+uint64(settling/tick)
}

// untouched names every launch of an owner of whom we can't tell if it lives:
// it is of another place, or of this one and the question could not be asked.
func untouched(d *ledger.Owner, rec *ledger.OwnerRecord, here host.Place, rep *Report) {
	verdict, outcome, reason := proof.Foreign, stop.Foreign, "recorded on another machine or in another PID namespace"
	if rec.Boot == here.Boot && rec.PIDNS == here.PIDNS {
		verdict, outcome = proof.Unsure, stop.Incomplete
		reason = fmt.Sprintf("can't tell if its owner, process %d, lives", rec.Process.PID)
		if p, err := host.Recognise(rec.Process); err != nil {
			reason += ": " + err.Error()
		} else {
			p.Close()
		}
	}
	recs, odd, err := d.Records()
	rep.Odd = append(rep.Odd, odd...)
	if err != nil {
		rep.Odd = append(rep.Odd, ledger.Odd{Path: d.Path(), Reason: err.Error()})
	}
	for _, r := range recs {
		rep.Results = append(rep.Results, Result{ID: r.ID, Name: r.Name, Verdict: verdict, Outcome: string(outcome), Reason: reason})
	}
}

// OwnerAlive tells from an owner's record whether its process lives.
func OwnerAlive(rec *ledger.OwnerRecord, here host.Place) proof.Answer {
	switch {
	case rec.Boot != here.Boot && rec.Host != "" && rec.Host == here.Host:
		return proof.No
	case rec.Boot != here.Boot || rec.PIDNS != here.PIDNS:
		return proof.Unknown
	}
	p, err := host.Recognise(rec.Process)
	if errors.Is(err, os.ErrProcessDone) {
		return proof.No
	}
	if err != nil {
		return proof.Unknown
	}
	defer p.Close()
	exited, err := p.Exited()
	if err != nil {
		return proof.Unknown
	}
	return proof.Of(!exited)
}
