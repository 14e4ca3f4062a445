package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/custody-project/custody/proof"
)

// Claim is the content of the file of a name or port: which launch holds it.
type Claim struct {
	Version int      `json:"version"`
	Scope   string   `json:"scope,omitempty"` // of a port, which is one for all scopes
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
	return fmt.Sprintf("name %q of scope %q is held by launch %[3]s, which is not proven gone; stop it with 'custody stop %[3]s', start in its place with --replace, or take it over with 'custody adopt %[3]s' if it outlived its owner; 'custody forget %[3]s' frees the name if it was recorded on another machine or in a container that is gone", e.Name, e.Scope, e.Holder.Launch.Short())
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
	return releaseClaim(root, name, launch)
}

// releaseClaim takes a launch's claim out of an opened directory of claims.
func releaseClaim(root *os.Root, file string, launch proof.ID) error {
	unlock, err := lockClaims(root, 0)
	if err != nil {
		return err
	}
	defer unlock()
	held, err := readClaim(root, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || held.Launch != launch {
		return err
	}
	return root.Remove(file)
}

// lockClaims takes the lock of an opened directory of claims.
func lockClaims(root *os.Root, create int) (unlock func(), err error) {
	if err := checkDir(root, "."); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	lock, err := root.OpenFile(".lock", os.O_RDWR|create|openFlags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	if err := flock(lock); err != nil {
		lock.Close()
		return nil, fmt.Errorf("claims: lock: %w", err)
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
// first owner or with another one that took it over, and has not ended. What
// can't be told is held.
func (s *Store) recorded(scope string, c Claim) bool {
	for range 3 {
		o, err := s.OpenOwner(scope, c.Owner)
		if err == nil && !o.Has(c.Launch) {
			o.Close()
			err = fs.ErrNotExist
		}
		if errors.Is(err, fs.ErrNotExist) {
			o, err = s.Locate(scope, c.Launch)
		}
		if err != nil {
			return !errors.Is(err, fs.ErrNotExist)
		}
		r, err := o.Read(c.Launch)
		o.Close()
		if !errors.Is(err, fs.ErrNotExist) {
			return err != nil || r.State != Ended
		}
		// It ended, or moved to yet another owner.
	}
	return true
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
	held, err := s.claim(filepath.Join(scope, namesDir), name, c, func(held Claim) bool { return s.recorded(scope, held) })
	var odd oddClaim
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errHeld):
		return &NameHeldError{Scope: scope, Name: name, Holder: held}
	case errors.As(err, &odd):
		return &NameHeldError{Scope: scope, Name: name, Reason: odd.Error()}
	}
	return fmt.Errorf("name %s: %w", name, err)
}

// errHeld says that a claim is held by another launch.
var errHeld = errors.New("held")

// oddClaim is a claim that can't be believed.
type oddClaim struct{ error }

// claim writes a claim unless the launch of one that is there still holds it:
// then the error is errHeld, and an oddClaim if that can't be read.
func (s *Store) claim(dir, file string, c Claim, holds func(Claim) bool) (held Claim, err error) {
	if err := s.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return held, err
	}
	root, err := s.root.OpenRoot(dir)
	if err != nil {
		return held, err
	}
	defer root.Close()
	unlock, err := lockClaims(root, os.O_CREATE)
	if err != nil {
		return held, err
	}
	defer unlock()
	held, err = readClaim(root, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return held, oddClaim{err}
	case held.Launch == c.Launch:
		return held, nil
	case holds(held):
		return held, errHeld
	}
	c.Version = Version
	b, err := encode(c)
	if err != nil {
		return held, err
	}
	return held, writePrivate(root, file, b, false)
}
