package contain

import (
	"context"
	"time"

	"github.com/custody-project/custody/internal/engine"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// Level container: the tree is an engine's. It is asked, and what it tells is
// judged like anything else; no process of the container is looked at here.

// patience is how long one look at a container may take.
const patience = 15 * time.Second

// underWay is how long after the intent, or after its owner's death where that
// was seen, a container may still appear that the engine was asked to make. An
// engine goes on with what it was asked for when the asker has died.
const underWay = 10 * time.Second

func (l *look) container() {
	c, err := engine.Registered()
	if err != nil {
		l.s.Verdict, l.s.Reason = proof.Unsure, err.Error()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	sight := c.Look(ctx, l.Rec)
	l.s.Container = &sight
	f := proof.JudgeContainer(append(append([]proof.Evidence{}, l.place...), sight.Facts...))
	l.s.Verdict, l.s.Reason, l.s.Evidence = f.Verdict, f.Reason, f.Evidence
	switch {
	case f.Verdict == proof.Unsure && sight.Err != nil:
		l.s.Reason += ": " + sight.Err.Error()
	case f.Verdict == proof.Owned:
		l.s.Reason = "container " + sight.ID[:min(12, len(sight.ID))] + " is " + sight.State
	case f.Verdict == proof.Gone && l.maybeUnderWay():
		l.s.UnderWay = true
		l.s.Verdict, l.s.Reason = proof.Unsure, "the engine may still be making it"
	}
}

// maybeUnderWay reports whether the engine was asked for the container so
// lately that it may still be making it.
func (l *look) maybeUnderWay() bool {
	const tick = 10 * time.Millisecond
	return l.Rec.Container.ID == "" && l.Rec.Boot == l.Here.Boot &&
		host.StartNow() < max(l.Rec.IntentTicks, l.DeathTicks)+uint64(underWay/tick)
}
