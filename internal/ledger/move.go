package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/proof"
)

// A launch that outlives its owner is taken over by another one: its record
// moves from directory to directory, in one rename. Whoever knows a launch by
// the place of its record looks for it again when it is not there.

// Move takes a launch over: its record moves into the directory of the new
// owner, whose lock the caller holds. Both stop locks of the launch are held
// meanwhile, so no stop comes in between; check is asked then, with the record
// as it is, and its error ends the move.
//
// A launch that is not there any more matches fs.ErrNotExist.
func Move(ctx context.Context, from, to *Owner, id proof.ID, check func(*Record) error) error {
	if to.lock == nil {
		return fmt.Errorf("launch %s: taken over by an owner without its lock", id)
	}
	free, err := from.HoldStop(ctx, id)
	if err != nil {
		return err
	}
	defer free()
	also, err := to.HoldStop(ctx, id)
	if err != nil {
		return err
	}
	defer also()
	r, err := from.Read(id)
	if err != nil {
		return err
	}
	if err := check(r); err != nil {
		return err
	}
	// Named in the record before it moves: wherever it is found after a crash
	// it is believed there, and nowhere else.
	if err := from.Update(id, func(r *Record) { r.Owner, r.TakenBy = from.ID, to.ID }); err != nil {
		return err
	}
	crash.Here("move-named")
	if err := to.receive(from, id); err != nil {
		return err
	}
	crash.Here("move-moved")
	return to.Update(id, func(r *Record) { r.Owner, r.TakenBy = to.ID, proof.ID{} })
}

// receive renames the record of another owner into this one's directory. The
// writers' lock is held where it leaves: a writer that comes later finds
// nothing, and looks for it.
func (o *Owner) receive(from *Owner, id proof.ID) error {
	unlock, err := from.lockRange(id, rangeUpdate)
	if err != nil {
		return err
	}
	defer unlock()
	store, err := OpenStoreOf(o)
	if err != nil {
		return err
	}
	defer store.Close()
	file := id.String() + ".json"
	if err := store.root.Rename(filepath.Join(from.Scope, from.ID.String(), file), filepath.Join(o.Scope, o.ID.String(), file)); err != nil {
		return fmt.Errorf("launch %s: take over: %w", id, err)
	}
	return nil
}

// Locate opens the directory of the owner that has the launch's record by now.
// Missing matches fs.ErrNotExist.
func Locate(near *Owner, id proof.ID) (*Owner, error) {
	store, err := OpenStoreOf(near)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return store.Locate(near.Scope, id)
}

// written reports whether the launch has a record, or it can't be told.
func (s *Store) written(scope string, id proof.ID) bool {
	d, err := s.Locate(scope, id)
	if err == nil {
		d.Close()
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// Locate opens the directory of the owner that has the launch's record.
// Missing matches fs.ErrNotExist.
func (s *Store) Locate(scope string, id proof.ID) (*Owner, error) {
	// While one looks it may move from a directory not looked at yet to one
	// that was.
	for range 3 {
		owners, _, err := s.Owners(scope)
		if err != nil {
			return nil, err
		}
		for _, owner := range owners {
			d, err := s.OpenOwner(scope, owner)
			if err != nil {
				continue
			}
			if d.Has(id) {
				return d, nil
			}
			d.Close()
		}
	}
	return nil, fmt.Errorf("launch %s: %w", id, fs.ErrNotExist)
}
