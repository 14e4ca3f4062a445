package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/custody-project/custody/proof"
)

// Claim is the content of a name's file: which launch holds it.
type Claim struct {
	Version int      `json:"version"`
	Owner   proof.ID `json:"owner"`
	Launch  proof.ID `json:"launch"`
}

// NameHeldError says that a name is held by a launch that is not proven gone.
type NameHeldError struct {
	Scope, Name string
	Holder      Claim
	Reason      string // set where the claim itself can't be believed
}

func (e *NameHeldError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("name %q of scope %q: its claim can't be read (%s); remove the file by hand once you know nothing runs under the name", e.Name, e.Scope, e.Reason)
	}
	return fmt.Sprintf("name %q of scope %q is held by launch %s, which is not proven gone; stop it with 'custody stop %s', or run 'custody sweep' if its owner died; 'custody forget %s' frees the name if it was recorded on another machine or in a container that is gone", e.Name, e.Scope, e.Holder.Launch, e.Holder.Launch, e.Holder.Launch)
}

// ReleaseName takes a launch's claim away after its record has ended. What is
// not its claim stays.
func (o *Owner) ReleaseName(name string, launch proof.ID) error {
	root, err := os.OpenRoot(filepath.Join(filepath.Dir(o.path), namesDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	unlock, err := lockNames(root, 0)
	if err != nil {
		return err
	}
	defer unlock()
	held, err := readClaim(root, name)
	if err != nil || held.Launch != launch {
		return err
	}
	return root.Remove(name)
}

// lockNames takes the lock of an opened directory of names.
func lockNames(root *os.Root, create int) (unlock func(), err error) {
	if err := checkDir(root, "."); err != nil {
		return nil, fmt.Errorf("names: %w", err)
	}
	lock, err := root.OpenFile(".lock", os.O_RDWR|create|openFlags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("names: %w", err)
	}
	if err := flock(lock); err != nil {
		lock.Close()
		return nil, fmt.Errorf("names: lock: %w", err)
	}
	return func() { lock.Close() }, nil
}

func readClaim(root *os.Root, name string) (Claim, error) {
	var c Claim
	b, err := readPrivate(root, name)
	if err != nil {
		return c, err
	}
	return c, decode(b, &c)
}

// recorded reports whether the launch that holds a name has a record, with its
// first owner or with another one that took it over, and has not ended.
func (s *Store) recorded(scope string, c Claim) bool {
	holds := func(owner proof.ID) bool {
		_, err := s.root.Lstat(filepath.Join(scope, owner.String(), c.Launch.String()+".json"))
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist)
		}
		o, err := s.OpenOwner(scope, owner)
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist)
		}
		defer o.Close()
		r, err := o.Read(c.Launch)
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist)
		}
		return r.State != Ended
	}
	if holds(c.Owner) {
		return true
	}
	owners, _, err := s.Owners(scope)
	return err != nil || slices.ContainsFunc(owners, holds)
}

// ClaimName takes a name for a launch. The name is free when nobody claims it
// or when the record of the launch that claims it has ended; a record ends
// only after its tree is proven gone. Held is a *NameHeldError.
//
// The launch's intent must be written before, so that there is no moment in
// which the claim names a record that is not there yet.
func (s *Store) ClaimName(scope, name string, c Claim) error {
	if err := CheckName(name); err != nil {
		return err
	}
	dir := filepath.Join(scope, namesDir)
	if err := s.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("names: %w", err)
	}
	root, err := s.root.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("names: %w", err)
	}
	defer root.Close()
	unlock, err := lockNames(root, os.O_CREATE)
	if err != nil {
		return err
	}
	defer unlock()
	held, err := readClaim(root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return &NameHeldError{Scope: scope, Name: name, Reason: err.Error()}
	case held.Launch == c.Launch:
		return nil
	case s.recorded(scope, held):
		return &NameHeldError{Scope: scope, Name: name, Holder: held}
	}
	c.Version = Version
	b, err := encode(c)
	if err != nil {
		return err
	}
	return writePrivate(root, name, b, false)
}
