package custody

import (
	"context"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/unit"
	"github.com/custody-project/custody/proof"
)

// A launch that is to survive its owner is not started where something above
// us ends both (package unit).

// look refuses the launch if that is certain, and tells what may be.
func (o *Owner) look(ctx context.Context, rec *ledger.Record, s *Spec) error {
	if rec.OnOwnerDeath != ledger.Survive || s.AcceptEnvironment {
		return nil
	}
	if ctx == nil {
		ctx = context.Background()
	}
	for _, f := range (unit.Surroundings{}).Look(ctx, s.ScopeUnit) {
		if f.Lives == proof.Yes {
			continue
		}
		err := &EnvironmentError{Check: f.Name, Certain: f.Lives == proof.No, Reason: f.Detail, Remedy: f.Remedy}
		if err.Certain {
			return err
		}
		o.event(Event{Kind: Environment, Launch: rec.ID, Name: rec.Name, Err: err})
	}
	return nil
}

// surroundings are the checks of Doctor that say if a launch can outlive the
// process that asks.
func surroundings() []Check {
	ctx := context.Background()
	var out []Check
	for _, f := range (unit.Surroundings{}).Look(ctx, false) {
		out = append(out, Check{Name: f.Name, Answer: f.Lives, Detail: f.Detail, Remedy: f.Remedy})
	}
	c := Check{Name: "scope unit", Answer: proof.Yes}
	if whose, err := (unit.Surroundings{}).Manager(ctx); err != nil {
		c.Answer, c.Detail, c.Remedy = proof.No, lacking(err), "have a D-Bus with systemd's manager; only --scope-unit needs it"
	} else {
		c.Detail = "the " + whose + " service manager can be asked for one (--scope-unit)"
	}
	return append(out, c)
}
