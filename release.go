package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/sweep"
)

// Release hands a launch of any owner out of custody; see Launch.Release.
func Release(ctx context.Context, launch string, opt ListOptions) (ID, error) {
	return change(ctx, launch, opt, "release", func(d *ledger.Owner, id ID, _ host.Place) error {
		return sweep.Release(ctx, d, id)
	})
}

// change finds one launch and changes its record, wherever it moves meanwhile.
func change(ctx context.Context, launch string, opt ListOptions, verb string, f func(*ledger.Owner, ID, host.Place) error) (ID, error) {
	for try := 1; ; try++ {
		v, d, err := find(ctx, launch, opt)
		if err != nil {
			return ID{}, err
		}
		err = f(d, v.rec.ID, v.here)
		d.Close()
		if errors.Is(err, fs.ErrNotExist) && try < 10 {
			continue
		}
		if err != nil {
			return v.rec.ID, fmt.Errorf("%s launch %s: %w", verb, v.rec.ID.Short(), err)
		}
		return v.rec.ID, nil
	}
}

// Forget ends the record of a launch that can't be judged here, on the
// caller's word that nothing of it lives: one of another machine, or of a PID
// namespace (a container) that has ended. What it owned is left as it is, its
// name is free. It is refused while a proven member lives.
func Forget(ctx context.Context, launch string, opt ListOptions) (ID, error) {
	return change(ctx, launch, opt, "forget", func(d *ledger.Owner, id ID, here host.Place) error {
		return sweep.Forget(ctx, d, id, here)
	})
}
