package sweep

import (
	"context"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
)

// Adopt moves the record of a launch that outlived its owner into the directory
// of another owner, whose lock the caller holds. A stop in progress is waited
// for, as long as its plan can take. check is asked while nobody can stop the
// launch; see ledger.Move.
func Adopt(ctx context.Context, from, to *ledger.Owner, known *ledger.Record, here host.Place, check func(*ledger.Record) error) error {
	release, err := hold(ctx, from, known.ID, here, known)
	if err != nil {
		return err
	}
	defer release()
	return ledger.Move(ctx, from, to, known.ID, check)
}
