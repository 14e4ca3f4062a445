package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
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

// deadOwner is an owner that is proven dead, and whose lock we hold.
type deadOwner struct {
	d    *ledger.Owner
	recs []*ledger.Record
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

// openDead opens and locks an owner that is dead, and reads its records; nil if
// it lives, or is not ours to clean up after. before is called once if it has
// to wait for another sweeper.
func openDead(ctx context.Context, store *ledger.Store, scope string, id proof.ID, here host.Place, req Request, before func(), rep *Report) *deadOwner {
	aside := func(path string, err error) { rep.aside(store, scope, id, path, err) }
	d, err := store.OpenOwner(scope, id)
	if err != nil {
		aside(scope+"/"+id.String(), err)
		return nil
	}
	keep := false
	defer func() {
		if !keep {
			d.Close()
		}
	}()
	var locked bool
	if req.Busy {
		locked, err = d.TryLock()
	} else {
		locked, err = lockDead(ctx, d, here, before)
	}
	if err != nil {
		aside(d.Path(), err)
		return nil
	}
	if !locked {
		rep.Live++
		forgetEnded(d, req)
		return nil
	}
	rec, err := d.ReadOwner()
	if err != nil {
		aside(d.Path()+"/owner.json", err)
		return nil
	}
	if alive := OwnerAlive(rec, here); alive != proof.No && !rec.Closed {
		// The lock is free and yet its process lives, or it is of a place we
		// can't look into: then it is not ours to clean up after.
		if alive == proof.Yes && rec.Behalf {
			rep.Live++
			forgetEnded(d, req)
			return nil
		}
		if alive == proof.Unknown {
			untouched(d, rec, here, rep)
			return nil
		}
		aside(d.Path(), fmt.Errorf("its lock is free, but process %d of its owner lives", rec.Process.PID))
		return nil
	}
	crash.Here("sweep-locked")
	recs, odd, err := d.Records()
	if err != nil {
		aside(d.Path(), err)
		return nil
	}
	rep.Odd = append(rep.Odd, odd...)
	keep = true
	return &deadOwner{d, recs}
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

const lockPatience = 2 * time.Minute

// lockDead takes the lock of a dead owner. It returns false while the owner
// lives; another sweeper is waited for, so that a sweep that has returned has
// swept, whoever did the work. What the other one removed is fs.ErrNotExist.
// It is not waited for longer than lockPatience beyond ctx: a process that was
// stopped by a signal can hold a lock for good.
func lockDead(ctx context.Context, d *ledger.Owner, here host.Place, before func()) (bool, error) {
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
		if before != nil {
			before()
			before = nil
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
	if r.State == ledger.Ended {
		res.Verdict, res.Outcome, res.Reason = proof.Gone, Ended, "it has ended; its exit status and log are kept for a day"
		if time.Since(r.EndedAt) > KeptEnded && !req.DryRun {
			res.Reason = "it ended more than a day ago"
			if err := d.Remove(r.ID); err != nil {
				res.Reason = err.Error()
			}
		}
		return res, true
	}
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
	if r.Container != nil {
		return triageContainer(r, tree, released, req)
	}
	// Where the leader lives there is nothing to decide, and End looks anyway.
	if !released && !req.DryRun && tree.LeaderLives() {
		if res.Verdict = proof.Owned; r.OnOwnerDeath == ledger.Survive {
			res.Outcome, res.Reason = Survives, "its leader lives"
			return res, true
		}
		return res, false
	}
	// The table may show what left the group. A cgroup can be left only by who
	// may write another one, and that is root: elsewhere the table is asked
	// only before something is freed that the one who left may still use.
	s, err := tree.Look(r.Cgroup == nil || len(r.Assets) > 0 || r.UID == 0)
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
	case s.Verdict == proof.Owned && r.OnOwnerDeath == ledger.Survive && !halfStarted(d, r):
		res.Outcome = Survives
		return res, true
	case req.DryRun:
		res.Outcome = map[proof.Verdict]string{proof.Owned: WouldStop, proof.Gone: WouldFree}[s.Verdict]
		if res.Outcome == "" {
			res.Outcome = string(stop.Incomplete)
		}
		res.Hook = r.StopHook
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
	case s.Verdict == proof.Gone && !unsettled(r, req):
		release, ok, err := d.TryHoldStop(r.ID)
		if err != nil || !ok {
			return res, false // somebody else is at it: wait for them
		}
		defer release()
		now, err := d.Read(r.ID)
		if errors.Is(err, fs.ErrNotExist) {
			// Somebody else ended it, or took it over.
			res.Outcome, res.Reason = string(stop.Gone), "its record has ended"
			return res, true
		}
		if err == nil && !reflect.DeepEqual(now, read) {
			return res, false // it went on since we looked
		}
		res.Outcome = string(stop.Gone)
		if lead := r.Leader; lead != nil && tree.Recycled() {
			res.Reason = "pid reused"
		}
		if err := conclude(d, r, &res, req.Fork); err != nil {
			res.Outcome, res.Reason = string(stop.Incomplete), err.Error()
		}
		return res, true
	}
	return res, false
}

// forgetEnded removes what a living owner keeps of launches that ended long
// ago: it may live for months.
func forgetEnded(d *ledger.Owner, req Request) {
	if req.DryRun {
		return
	}
	for _, id := range d.Untouched(KeptEnded) {
		if r, err := d.Read(id); err == nil && r.State == ledger.Ended && time.Since(r.EndedAt) > KeptEnded {
			d.Remove(id)
		}
	}
}

// survivor looks again at a launch that is to live on: it is concluded once
// nothing of it is left, and never signalled.
func survivor(ctx context.Context, d *ledger.Owner, r *ledger.Record, here host.Place, req Request) Result {
	for range 40 {
		now, err := d.Read(r.ID)
		if errors.Is(err, fs.ErrNotExist) {
			return movedOn(d, r)
		}
		if err == nil {
			if res, done := triage(d, now, here, nil, req); done && res.Verdict != proof.Unsure {
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

// halfStarted reports whether the start of a launch that was to live on came to
// nothing: its dead owner's keeper died too, before it wrote down what it had
// started. No start has returned it and nobody can adopt it, so it is ended as
// what is to die with its owner.
func halfStarted(d *ledger.Owner, r *ledger.Record) bool {
	if r.Leader != nil || r.Container != nil {
		return false
	}
	if now, err := d.Read(r.ID); err != nil || now.Leader != nil || now.Keeper == nil || !keeperDead(now) {
		return false
	}
	// Dead by now: it writes no more.
	now, err := d.Read(r.ID)
	return err == nil && now.Leader == nil && now.State == ledger.Intent
}

// movedOn tells of a record that is not where it was: another owner has taken
// the launch over, or it has ended.
func movedOn(d *ledger.Owner, r *ledger.Record) Result {
	res := Result{ID: r.ID, Name: r.Name}
	now, err := ledger.Locate(d, r.ID)
	switch {
	case err == nil:
		now.Close()
		res.Outcome, res.Reason = Survives, "another owner has taken it over"
	case errors.Is(err, fs.ErrNotExist):
		res.Verdict, res.Outcome, res.Reason = proof.Gone, string(stop.Gone), "its record has ended"
	default:
		res.Outcome, res.Reason = string(stop.Incomplete), err.Error()
	}
	return res
}

// settling is how long a forked child may take until it has executed its
// program, and with it has got the environment by which it is known.
const settling = 200 * time.Millisecond

// unsettled reports whether a child may be on its way that nothing ties to the
// launch yet: its owner died in the very moment of the fork.
func unsettled(r *ledger.Record, req Request) bool {
	const tick = 10 * time.Millisecond
	return r.State == ledger.Intent && r.Leader == nil && r.Container == nil &&
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
	return host.Lives(rec.Process)
}
