package unit

import (
	"context"

	"github.com/custody-project/custody/proof"
)

// Look asks for everything that may end the launch with its owner. scope says
// that the launch will get a scope unit of its own.
func (s Surroundings) Look(ctx context.Context, scope bool) []Finding {
	at, err := s.place()
	if err != nil {
		why := "our own cgroup can't be read: " + err.Error()
		return []Finding{
			{Service, proof.Unknown, why, "mount /proc"},
			{Session, proof.Unknown, why, "mount /proc"},
			s.init(), s.launch(),
		}
	}
	return []Finding{s.service(ctx, at, scope), s.session(ctx, at, scope), s.init(), s.launch()}
}
