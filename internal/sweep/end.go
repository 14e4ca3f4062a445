// Package sweep ends launches: it stops the tree, frees what it owned and ends
// the record, in that order. Owner, watchdog, keeper, the next owner and the
// command line all come here, with the same record and the same code.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// Result is what became of one launch.
type Result struct {
	ID        proof.ID
	Name      string
	Verdict   proof.Verdict
	Outcome   string // gone, incomplete, foreign, survives, released, ended, would-stop, would-free
	Reason    string
	Sent      []stop.Sent
	Survivors []stop.Survivor
	Freed     []string
	Hook      *ledger.StopHook // the recorded stop hook, and what came of it
	Exit      *ledger.Exit     // of a container that was removed, as its engine told it last
}

// Outcomes besides those of package stop.
const (
	Released  = "released"   // handed out of custody
	Ended     = "ended"      // gone before, its exit status is kept
	Survives  = "survives"   // its owner is dead and it is to live on
	WouldStop = "would-stop" // dry run: members would be signalled
	WouldFree = "would-free" // dry run: nothing lives, the record would end
)

// Options of End.
type Options struct {
	Death  bool         // the owner died: use the death phases
	Phases []stop.Phase // instead of the recorded plan
	Keep   bool         // stop the tree, but leave assets and record to the owner
	Failed bool         // its start failed: the user's own directories are given back
	Exit   *ledger.Exit // how the leader ended, for a record that doesn't say it yet

	// Known is the record as the caller remembers it. A record that is missing
	// on disk is no proof that the tree is gone: somebody may have deleted the
	// state directory. Then this one is gone by.
	Known      *ledger.Record
	DeathTicks uint64
	Event      func(stop.Sent)
	Told       func(stop.Progress)
	Hurry      <-chan struct{}
	Now        <-chan struct{} // closed: straight to KILL

	// Fork, if not nil, forks a stop hook by calling start. Who collects every
	// child of this process leaves the hook alone until done is called.
	Fork Fork

	// OwnerDead is closed when the launch's owner dies: from then on no phase
	// is waited in longer than the first death phase would be.
	OwnerDead <-chan struct{}
}

// End ends one launch of the owner whose directory is d. If another process is
// ending it, End waits and returns what that came to.
func End(ctx context.Context, d *ledger.Owner, id proof.ID, here host.Place, opt Options) Result {
	res, rec := end(ctx, d, id, here, opt)
	if rec != nil && !opt.Keep {
		endKeepers([]*ledger.Record{rec}, []Result{res}, here)
	}
	return res
}

// end is End without the wait for the keeper, which may be waiting for the
// lock that is held here. It returns the record that it went by, if it got one.
func end(ctx context.Context, d *ledger.Owner, id proof.ID, here host.Place, opt Options) (Result, *ledger.Record) {
	res := Result{ID: id}
	release, err := hold(ctx, d, id, here, opt.Known)
	if err != nil {
		res.Outcome, res.Reason = string(stop.Incomplete), err.Error()
		return res, nil
	}
	defer release()
	rec, err := d.Read(id)
	if errors.Is(err, fs.ErrNotExist) && movable(opt.Known) {
		// Another owner may have taken it over.
		now, e := ledger.Locate(d, id)
		if e == nil {
			defer now.Close()
			release()
			return end(ctx, now, id, here, opt)
		}
		if !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		if opt.Known == nil {
			res.Verdict, res.Outcome, res.Reason = proof.Gone, string(stop.Gone), "its record has ended"
			return res, nil
		}
		known := *opt.Known
		rec, err = &known, nil
	}
	if err != nil {
		res.Outcome, res.Reason = string(stop.Incomplete), fmt.Sprintf("record can't be believed: %v", err)
		return res, nil
	}
	res.Name = rec.Name
	if rec.State == ledger.Released {
		res.Verdict, res.Outcome = proof.Foreign, Released
		res.Reason = "released from custody; take it back with 'custody adopt' before stopping it"
		return res, nil
	}
	if rec.State == ledger.Ended {
		res.Verdict, res.Outcome, res.Reason = proof.Gone, string(stop.Gone), "it has ended"
		return res, rec
	}
	tree := contain.Of(rec, here, nil)
	tree.DeathTicks = opt.DeathTicks
	if gentle(opt) && judged(tree) {
		// What can't be recorded is tried again when the tree is gone.
		runHook(d, rec, &res, opt.Fork, opt.Now)
	}
	rep := run(ctx, d, rec, tree, opt)
	res.Verdict, res.Outcome, res.Reason = rep.Verdict, string(rep.Outcome), rep.Reason
	res.Sent, res.Survivors = rep.Sent, rep.Survivors
	if rep.Outcome == stop.Gone && !opt.Keep {
		if err := settle(d, rec, &res, opt); err != nil {
			res.Outcome, res.Reason = string(stop.Incomplete), err.Error()
		}
	}
	return res, rec
}

// movable reports whether the record of a launch may lie with another owner by
// now.
func movable(known *ledger.Record) bool {
	return known == nil || known.OnOwnerDeath == ledger.Survive
}

// hold takes the launch's stop lock. Whoever holds it is ending the launch and
// is waited for as long as the plan can take. A keeper that was stopped by a
// signal while it held the lock would keep it for good: it is continued.
func hold(ctx context.Context, d *ledger.Owner, id proof.ID, here host.Place, known *ledger.Record) (func(), error) {
	rec, err := d.Read(id)
	if err != nil {
		rec = known
	}
	patience := 30 * time.Second
	if rec != nil {
		for _, p := range append(append([]ledger.Phase{}, rec.Phases...), rec.DeathPhases...) {
			patience += p.Wait
		}
		if rec.StopHook != nil {
			patience += rec.StopHook.Timeout
		}
	}
	for end := time.Now().Add(patience); ; {
		slice, cancel := context.WithTimeout(ctx, min(time.Second, time.Until(end)))
		release, err := d.HoldStop(slice, id)
		cancel()
		switch {
		case err == nil:
			return release, nil
		case errors.Is(err, fs.ErrNotExist): // the owner's directory is gone, nobody can hold it
			return func() {}, nil
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		case !time.Now().Before(end):
			return nil, fmt.Errorf("another process has been stopping it for longer than its plan takes: %w", err)
		}
		if rec != nil {
			stop.WakeKeeper(contain.Of(rec, here, nil)) // if it is not stopped nothing happens
		}
	}
}

func run(ctx context.Context, d *ledger.Owner, rec *ledger.Record, tree *contain.Tree, opt Options) stop.Report {
	phases, from := opt.Phases, 0
	if phases == nil {
		plan := rec.Phases
		if opt.Death {
			plan = rec.DeathPhases
		}
		var err error
		if phases, err = Plan(plan); err != nil {
			return stop.Report{Outcome: stop.Incomplete, Reason: err.Error()}
		}
		from = rec.PhasesSent
	}
	// What was begun must be known to whoever goes on if we die here. It is
	// written as far as anything can be written: a full disk stops no stop.
	sent := func(n int) {
		d.Update(rec.ID, func(r *ledger.Record) {
			if r.State == ledger.Running {
				r.State = ledger.Stopping
			}
			r.PhasesSent = n
		})
	}
	done, begun := make(chan struct{}), false
	defer close(done)
	rep := stop.Run(ctx, tree, phases, stop.Options{
		From:  from,
		Begun: func(n int) { begun = true; sent(n + 1) },
		Event: opt.Event, Told: opt.Told, Hurry: patience(opt, rec, done), Now: opt.Now,
	})
	// Where the engine of a container could not be asked nothing was sent.
	if rep.Outcome == stop.Incomplete && ctx.Err() == nil && (begun || rec.Container == nil) {
		// The plan came to its end. Whoever tries again only repeats the KILL:
		// what was asked politely was asked once.
		again := len(phases)
		for i, p := range phases {
			if p.Signal == syscall.SIGKILL {
				again = i
			}
		}
		sent(again)
	}
	return rep
}

// patience is opt.Hurry, and beats once per death phase after the owner died.
func patience(opt Options, rec *ledger.Record, done <-chan struct{}) <-chan struct{} {
	if opt.OwnerDead == nil || opt.Death {
		return opt.Hurry
	}
	hurry := make(chan struct{}, 8)
	go func() {
		dead, pass := opt.OwnerDead, opt.Hurry
		var beat <-chan time.Time
		for {
			select {
			case <-done:
				return
			case <-dead:
				dead = nil
				beat = time.After(rec.DeathPhases[0].Wait)
				continue
			case <-beat:
				beat = time.After(rec.DeathPhases[0].Wait + time.Millisecond)
			case <-pass:
			}
			select {
			case hurry <- struct{}{}:
			default:
			}
		}
	}()
	return hurry
}

// Conclude frees what a launch owned whose tree is proven gone, and ends its
// record. The caller holds the launch's stop lock.
func conclude(d *ledger.Owner, rec *ledger.Record, res *Result, fork Fork) error {
	return settle(d, rec, res, Options{Fork: fork})
}

// settle is conclude, also for a launch whose start failed. A user's own
// directory is deleted only if a leader is recorded that may have used it.
func settle(d *ledger.Owner, rec *ledger.Record, res *Result, opt Options) error {
	// Read again: members and assets may have been added while it stopped.
	if r, err := d.Read(rec.ID); err == nil {
		rec = r
	}
	crash.Here("stopped")
	if rec.State != ledger.Released && !opt.Failed {
		if err := runHook(d, rec, res, opt.Fork, nil); err != nil {
			return err
		}
	}
	if rec.Container != nil {
		if err := freeContainer(d, rec, res); err != nil {
			return err
		}
	}
	var errs []error
	assets := rec.Assets
	if rec.State == ledger.Released {
		assets = nil // they went with it
	}
	for _, a := range assets {
		if a.Kind == ledger.OwnDir && (opt.Failed || rec.Leader == nil) {
			errs = append(errs, asset.GiveBack(a, rec.ID))
			continue
		}
		freed, err := asset.Free(a, rec.ID)
		errs = append(errs, err)
		if freed {
			res.Freed = append(res.Freed, asset.Inside(a))
		}
		crash.Here("after-free")
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if rec.Cgroup != nil {
		if err := contain.RemoveCgroup(rec.Cgroup); err != nil {
			return err
		}
	}
	crash.Here("before-end")
	if err := endRecord(d, rec, opt, res); err != nil {
		return fmt.Errorf("end record: %w", err)
	}
	crash.Here("after-end")
	if rec.Name != "" {
		// A claim without a record holds nothing: this only tidies up.
		d.ReleaseName(rec.Name, rec.ID)
	}
	d.ReleasePorts(rec.Ports, rec.ID)
	return nil
}

// endRecord ends a record. That of a launch that outlives its owner stays, as
// ended: somebody may still ask how it ended, and what it said.
func endRecord(d *ledger.Owner, rec *ledger.Record, opt Options, res *Result) error {
	if rec.OnOwnerDeath != ledger.Survive || !rec.Started() || rec.State == ledger.Released || opt.Failed {
		return d.Remove(rec.ID)
	}
	ended := func(r *ledger.Record) {
		r.State, r.EndedAt = ledger.Ended, time.Now().UTC()
		if r.Exit == nil {
			r.Exit = opt.Exit
		}
		r.Assets, r.Cgroup, r.Members = nil, nil, nil
		if res.Hook != nil {
			r.StopHook = res.Hook
		}
	}
	err := d.Update(rec.ID, ended)
	if err == nil {
		keepLast(d, rec.Name)
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A full disk. What the record took is enough for what it becomes; should
	// another program be quicker: better a name that is free than an exit status.
	gone, err := d.Replace(rec.ID, ended)
	if gone {
		res.Reason = fmt.Sprintf("how it ended could not be kept: %v", err)
		err = nil
	}
	return err
}

// Plan turns recorded phases into a stop plan.
func Plan(phases []ledger.Phase) ([]stop.Phase, error) {
	out := make([]stop.Phase, 0, len(phases))
	for _, p := range phases {
		sig, err := stop.ParseSignal(p.Signal)
		if err != nil {
			return nil, err
		}
		out = append(out, stop.Phase{Signal: sig, Wait: p.Wait})
	}
	return out, nil
}
