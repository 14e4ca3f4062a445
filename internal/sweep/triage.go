package sweep

import (
	"context"
	"errors"
	"io/fs"
	"reflect"
	"time"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// What is to be done about one record, decided from one look at its tree.

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
	case res.notOurs(released):
		return res, true
	case s.Verdict == proof.Owned && r.OnOwnerDeath == ledger.Survive && !halfStarted(d, r):
		res.Outcome = Survives
		return res, true
	case req.DryRun:
		res.Outcome = wouldBe(s.Verdict)
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

// notOurs reports, by its verdict, whether nothing is to be done about a launch
// because it was released or is of another place, and says so.
func (r *Result) notOurs(released bool) bool {
	switch {
	case released && r.Verdict != proof.Gone:
		r.Verdict, r.Outcome, r.Reason = proof.Foreign, Released, "released from custody"
	case r.Verdict == proof.Foreign:
		r.Outcome = string(stop.Foreign)
	default:
		return false
	}
	return true
}

// wouldBe is what a dry run says of a launch that a sweep would end.
func wouldBe(v proof.Verdict) string {
	switch v {
	case proof.Owned:
		return WouldStop
	case proof.Gone:
		return WouldFree
	}
	return string(stop.Incomplete)
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
	if now, err := d.Read(r.ID); err != nil || now.Leader != nil || now.Keeper == nil || host.Lives(*now.Keeper) != proof.No {
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
