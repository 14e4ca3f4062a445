package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// Who is dead: an owner whose lock is free and whose process has ended. Only
// such a one is swept.

// deadOwner is an owner that is proven dead, and whose lock we hold.
type deadOwner struct {
	d    *ledger.Owner
	recs []*ledger.Record
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
