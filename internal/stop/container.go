package stop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/engine"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// A container is stopped by its engine: the same phases, each sent once to its
// first process, after a look that proves. The look and the act go by one
// random id that no engine gives twice, so nothing can come between them.

// viaEngine is how a container's signals travel.
const viaEngine = "engine"

// runContainer is Run for a container. It ends when the container does not
// run; to remove it is for whoever frees what the launch owned.
func (r *run) runContainer(ctx context.Context, phases []Phase) {
	killed, over := false, false
	do := func(n int, ph Phase) {
		r.at = Progress{Phase: n + 1, Phases: max(n+1, len(phases)), Signal: ph.Signal, Wait: ph.Wait}
		killed = killed || ph.Signal == syscall.SIGKILL
		over = r.containerPhase(ctx, n, ph) || ctx.Err() != nil
	}
	for n := min(max(r.opt.From, 0), len(phases)); n < len(phases) && !over; n++ {
		if phases[n].Signal == syscall.SIGKILL || !r.now() {
			do(n, phases[n])
		}
	}
	if r.now() && !killed && !over {
		do(len(phases), Phase{syscall.SIGKILL, killWait})
	}
	r.finishContainer(context.WithoutCancel(ctx))
}

// containerPhase runs one phase and reports whether the stop is over.
func (r *run) containerPhase(ctx context.Context, n int, ph Phase) bool {
	s := r.sightContainer(ctx)
	if !runs(s) {
		return true
	}
	if r.opt.Begun != nil {
		r.opt.Begun(n)
	}
	crash.Here("container-phase-begun")
	r.left(1)
	end := time.Now().Add(ph.Wait)
	err := r.sendContainer(ctx, s, ph.Signal)
	crash.Here("container-phase-signalled")
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.rep.Reason = err.Error()
	}
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if s = r.sightContainer(ctx); !runs(s) {
			return true
		}
		wait := min(pause, time.Until(end))
		if wait <= 0 {
			crash.Here("container-phase-over")
			return false
		}
		now := r.opt.Now
		if ph.Signal == syscall.SIGKILL {
			now = nil
		}
		select {
		case <-ctx.Done():
			return true
		case <-r.opt.Hurry:
			return false
		case <-now:
			return false
		case <-time.After(wait):
		}
	}
}

// runs reports whether the container is proven ours and may have processes.
func runs(s *contain.Sighting) bool {
	return s.Verdict == proof.Owned && s.Container != nil && s.Container.Live
}

// sightContainer looks until it can tell. An engine that is down is given a
// moment, one that may still be making the container the time for that.
func (r *run) sightContainer(ctx context.Context) *contain.Sighting {
	end := time.Now().Add(2 * time.Second)
	for {
		s, err := r.tree.Look(false)
		if err != nil {
			return &contain.Sighting{Reason: err.Error()}
		}
		if s.Verdict != proof.Unsure || ctx.Err() != nil || !s.UnderWay && time.Now().After(end) {
			return s
		}
		if _, err := engine.Registered(); err != nil {
			return s // it won't come by itself
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// sendContainer has the engine send a signal to a container that the sighting
// proves.
func (r *run) sendContainer(ctx context.Context, s *contain.Sighting, sig syscall.Signal) error {
	f := proof.JudgeContainer(s.Evidence)
	sent := Sent{PID: s.Container.PID, Signal: sig, Via: viaEngine, Finding: f}
	c, err := engine.Registered()
	switch {
	case err != nil:
	case !f.MaySignal():
		err = fmt.Errorf("refused: %s: %s", f.Verdict, f.Reason)
	default:
		err = c.Signal(ctx, r.tree.Rec.Container, s.Container.ID, SignalName(sig))
	}
	sent.Err = err
	r.rep.Sent = append(r.rep.Sent, sent)
	if r.opt.Event != nil {
		r.opt.Event(sent)
	}
	return err
}

func (r *run) finishContainer(ctx context.Context) {
	s := r.sightContainer(ctx)
	why := r.rep.Reason
	r.rep.Verdict, r.rep.Reason = s.Verdict, s.Reason
	switch {
	case s.Verdict == proof.Foreign:
		r.rep.Outcome = Foreign
	case s.Verdict == proof.Gone:
		r.rep.Outcome = Gone
	case s.Verdict == proof.Owned && !s.Container.Live:
		r.rep.Verdict, r.rep.Outcome = proof.Gone, Gone
	default:
		r.rep.Outcome = Incomplete
		if why != "" {
			r.rep.Reason += "; " + why
		}
		if s.Container != nil && s.Container.Live {
			r.rep.Survivors = append(r.rep.Survivors, Survivor{s.Container.PID, "still alive: " + r.rep.Reason})
		}
	}
}

// RemoveContainer removes the launch's container, which must not run any more,
// and tells how it ended. A container that is gone is no error; one that is not
// proven ours is left alone, and is one.
func RemoveContainer(ctx context.Context, tree *contain.Tree, ended func(*ledger.Exit)) (removed bool, err error) {
	c, err := engine.Registered()
	if err != nil {
		return false, err
	}
	for end := time.Now().Add(10 * time.Second); ; {
		s, err := tree.Look(false)
		switch {
		case err != nil:
			return removed, err
		case s.Verdict == proof.Gone || removed && s.UnderWay:
			return removed, nil // one that was under way has come, and was removed
		case s.Verdict != proof.Owned:
			return removed, fmt.Errorf("container is not removed: %s: %s", s.Verdict, s.Reason)
		case s.Container.Live:
			return removed, fmt.Errorf("container is not removed: %s", s.Reason)
		}
		if s.Container.Exit != nil && ended != nil {
			ended(s.Container.Exit)
		}
		crash.Here("container-before-remove")
		err = c.Remove(ctx, tree.Rec.Container, s.Container.ID)
		if err != nil && (ctx.Err() != nil || time.Now().After(end)) {
			return removed, fmt.Errorf("remove container: %w", err)
		}
		if removed = removed || err == nil; err != nil {
			time.Sleep(100 * time.Millisecond)
		}
		crash.Here("container-after-remove")
	}
}
