package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/logfile"
	"github.com/custody-project/custody/proof"
)

// Release hands a launch out of custody: its record says so, its directories
// are its own, and no stop or sweep touches it any more. One that has ended is
// refused: the error matches os.ErrProcessDone, and how it ended stays known.
func Release(ctx context.Context, d *ledger.Owner, id proof.ID) error {
	release, err := d.HoldStop(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	var assets []ledger.Asset
	err = d.Update(id, func(r *ledger.Record) {
		if !r.Started() || r.State == ledger.Ended {
			return
		}
		// They stay in the record, for an Adopt to find them again.
		assets = r.Assets
		r.State = ledger.Released
	})
	if err != nil {
		return err
	}
	rec, err := d.Read(id)
	if err != nil {
		return err
	}
	switch rec.State {
	case ledger.Released:
	case ledger.Ended:
		return fmt.Errorf("it has ended, there is nothing to hand out; 'custody forget' takes its record away: %w", os.ErrProcessDone)
	default:
		return errors.New("it is not started yet")
	}
	var errs []error
	for _, a := range assets {
		errs = append(errs, asset.Release(a, id))
	}
	return errors.Join(errs...)
}

// held is a record that nobody else ends or hands out until release is called.
func held(ctx context.Context, d *ledger.Owner, id proof.ID) (rec *ledger.Record, release func(), err error) {
	if release, err = d.HoldStop(ctx, id); err != nil {
		return nil, nil, err
	}
	if rec, err = d.Read(id); err != nil {
		release()
	}
	return rec, release, err
}

// Reclaim takes a released launch back into custody, if a live process is
// proven to be of it.
func Reclaim(ctx context.Context, d *ledger.Owner, id proof.ID, here host.Place) error {
	rec, release, err := held(ctx, d, id)
	if err != nil {
		return err
	}
	defer release()
	if rec.State != ledger.Released {
		return fmt.Errorf("it is in custody already (state %s)", rec.State)
	}
	rec.State = ledger.Running
	s, err := contain.Of(rec, here, nil).Look(true)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Verdict != proof.Owned {
		return fmt.Errorf("verdict %s: %s", s.Verdict, s.Reason)
	}
	// Its directories are the launch's again, those that still are the ones they
	// were.
	kept := []ledger.Asset{}
	for _, a := range rec.Assets {
		if asset.Retake(a) == nil {
			kept = append(kept, a)
		}
	}
	return d.Update(id, func(r *ledger.Record) { r.State, r.Assets = ledger.Running, kept })
}

// DropOwner removes the directory of an owner that has nothing left in it. The
// caller holds its lock.
func DropOwner(d *ledger.Owner) {
	if store, err := ledger.OpenStoreOf(d); err == nil {
		defer store.Close()
		store.RemoveOwner(d)
	}
}

// Forget ends a record that can't be judged here, on somebody's word that
// nothing of it lives: one of another machine or of a PID namespace that has
// ended, or one whose last suspect is known to be no member. What the launch
// owned is left as it is. It is refused while a proven member lives.
func Forget(ctx context.Context, d *ledger.Owner, id proof.ID, here host.Place) error {
	rec, release, err := held(ctx, d, id)
	if err != nil {
		return err
	}
	defer release()
	s, err := contain.Of(rec, here, nil).Look(true)
	if err != nil {
		return err
	}
	defer s.Close()
	if s.Verdict == proof.Owned {
		return fmt.Errorf("%s; stop it instead", s.Reason)
	}
	if err := d.Remove(id); err != nil {
		return err
	}
	if rec.Name != "" {
		err = d.ReleaseName(rec.Name, id)
	}
	err = errors.Join(err, d.ReleasePorts(rec.Ports, id), logfile.Remove(filepath.Dir(d.Path()), id))
	release()
	if dead, _ := d.TryLock(); dead {
		DropOwner(d)
	}
	return err
}
