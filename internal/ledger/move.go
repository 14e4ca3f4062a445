package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/proof"
)

// A launch that outlives its owner is taken over by another one: its record
// moves from directory to directory, in one rename. Whoever knows a launch by
// the place of its record looks for it again when it is not there.

// Move takes a launch over: its record moves into the directory of the new
// owner, whose lock the caller holds, as it holds the launch's stop lock in the
// old one. check is asked with the record as it is by then, and its error ends
// the move.
//
// A launch that is not there any more matches fs.ErrNotExist. After an error the
// record lies where it was.
func Move(ctx context.Context, from, to *Owner, id proof.ID, check func(*Record) error) error {
	if to.lock == nil {
		return fmt.Errorf("launch %s: taken over by an owner without its lock", id)
	}
	// Read before the second lock is waited for: who waits for one while it
	// holds another one has the record, so no two wait for each other.
	r, err := from.Read(id)
	if err != nil {
		return err
	}
	also, err := to.HoldStop(ctx, id)
	if err != nil {
		return err
	}
	defer also()
	if r.OnOwnerDeath != Survive {
		return fmt.Errorf("launch %s: it does not outlive its owner", id)
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
	// It is the new owner's by now, also if a full disk keeps this from being
	// said in fewer words.
	to.Update(id, func(r *Record) { r.Owner, r.TakenBy = to.ID, proof.ID{} })
	return nil
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

// Locate opens the directory of the owner that has the launch's record.
// Missing matches fs.ErrNotExist: that is said only if every directory could be
// asked.
func (s *Store) Locate(scope string, id proof.ID) (*Owner, error) {
	var blind error
	// While one looks it may move from a directory not looked at yet to one
	// that was.
	for range 3 {
		owners, _, err := s.Owners(scope)
		if err != nil {
			return nil, err
		}
		blind = nil
		for _, owner := range owners {
			_, err := s.root.Lstat(filepath.Join(scope, owner.String(), id.String()+".json"))
			if err == nil {
				var d *Owner
				if d, err = s.OpenOwner(scope, owner); err == nil {
					return d, nil
				}
			}
			if !errors.Is(err, fs.ErrNotExist) {
				blind = err
			}
		}
	}
	if blind != nil {
		return nil, fmt.Errorf("launch %s: can't tell where its record is: %w", id, blind)
	}
	return nil, fmt.Errorf("launch %s: %w", id, fs.ErrNotExist)
}

// ids collects the launches of a scope that have a record, in one pass; one
// that moves meanwhile may be missing.
func (s *Store) ids(scope string) (map[proof.ID]bool, error) {
	owners, _, err := s.Owners(scope)
	if err != nil {
		return nil, err
	}
	found := map[proof.ID]bool{}
	for _, owner := range owners {
		d, err := s.root.Open(filepath.Join(scope, owner.String()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names, err := d.Readdirnames(-1)
		d.Close()
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if id, err := proof.ParseID(strings.TrimSuffix(n, ".json")); err == nil {
				found[id] = true
			}
		}
	}
	return found, nil
}
