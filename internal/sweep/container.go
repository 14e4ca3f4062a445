package sweep

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// Launches that are containers. An engine keeps one whose processes have ended
// until it is removed, so nothing of such a launch is gone before that, and
// the end is always End's work.

// triageContainer decides about the record of a dead owner's container from
// one look. It reports false if the launch must be ended.
func triageContainer(r *ledger.Record, tree *contain.Tree, released bool, req Request) (Result, bool) {
	res := Result{ID: r.ID, Name: r.Name}
	s, err := tree.Look(false)
	if err != nil {
		res.Outcome, res.Reason = string(stop.Incomplete), err.Error()
		return res, true
	}
	res.Verdict, res.Reason = s.Verdict, s.Reason
	switch {
	case res.notOurs(released):
		return res, true
	case s.Verdict == proof.Unsure && !s.UnderWay:
		res.Outcome = string(stop.Incomplete)
		return res, true
	case s.Verdict == proof.Owned && s.Container.Live && r.OnOwnerDeath == ledger.Survive:
		res.Outcome = Survives
		return res, true
	case req.DryRun:
		res.Outcome = wouldBe(s.Verdict)
		return res, true
	}
	return res, false
}

// endedContainer frees what a container left that was to live on and has ended.
// It is never signalled: somebody may have started it again meanwhile.
func endedContainer(ctx context.Context, d *ledger.Owner, r *ledger.Record, here host.Place, req Request) Result {
	res := Result{ID: r.ID, Name: r.Name}
	incomplete := func(err error) Result {
		res.Outcome, res.Reason = string(stop.Incomplete), err.Error()
		return res
	}
	release, err := hold(ctx, d, r.ID, here, r)
	if err != nil {
		return incomplete(err)
	}
	defer release()
	now, err := d.Read(r.ID)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return movedOn(d, r)
	case err != nil:
		return incomplete(err)
	case now.State == ledger.Ended:
		res.Verdict, res.Outcome, res.Reason = proof.Gone, Ended, "it has ended"
		return res
	case now.State == ledger.Released:
		res.Verdict, res.Outcome, res.Reason = proof.Foreign, Released, "released from custody"
		return res
	}
	res.Verdict, res.Outcome = proof.Gone, string(stop.Gone)
	err = conclude(d, now, &res, req.Fork)
	if err == nil {
		return res
	}
	s, lerr := contain.Of(now, here, nil).Look(false)
	if lerr == nil && s.Verdict == proof.Owned && s.Container.Live {
		d.Update(r.ID, func(r *ledger.Record) { r.Exit = nil }) // it was to be removed: of an earlier run
		res.Verdict, res.Outcome, res.Reason = s.Verdict, Survives, s.Reason
		res.Exit = nil
		return res
	}
	res.Verdict = proof.Unsure
	return incomplete(err)
}

// freeContainer removes the container of a launch that has ended, and keeps in
// the record how it ended. A released one is not ours to remove.
func freeContainer(d *ledger.Owner, rec *ledger.Record, res *Result) error {
	if rec.State == ledger.Released {
		return nil
	}
	here, err := host.Here()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	removed, err := stop.RemoveContainer(ctx, contain.Of(rec, here, nil), func(e *ledger.Exit) {
		if res.Exit = e; rec.Exit == nil {
			rec.Exit = e
			d.Update(rec.ID, func(r *ledger.Record) { r.Exit = e })
		}
	})
	if removed {
		res.Freed = append(res.Freed, "container "+rec.Container.Name)
	}
	return err
}
