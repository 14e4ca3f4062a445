package ledger

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/custody-project/custody/proof"
)

// unfinished is how long the making of an owner's directory may take before
// what is left of it counts as litter. It takes a millisecond.
const unfinished = time.Minute

// Tidy removes what a crash left of owners' directories that were being made
// or removed. They hold no record: one is made before its owner starts
// anything, the other is removed after its last record has ended.
func (s *Store) Tidy(scope string) error {
	d, err := s.root.Open(scope)
	if err != nil {
		return err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		rel := filepath.Join(scope, e.Name())
		if !e.IsDir() || checkDir(s.root, rel) != nil {
			continue
		}
		switch {
		case strings.HasPrefix(e.Name(), oldPrefix):
		case strings.HasPrefix(e.Name(), newPrefix) && s.abandoned(rel, e):
		default:
			continue
		}
		if err := s.root.RemoveAll(rel); err != nil {
			return err
		}
	}
	return errors.Join(
		s.tidyClaims(filepath.Join(scope, namesDir), scope),
		s.tidyClaims(portsDir, scope),
		s.tidyLogs(scope))
}

// tidyLogs removes the logs of launches that have no record any more.
func (s *Store) tidyLogs(scope string) error {
	d, err := s.root.Open(filepath.Join(scope, logsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	files, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return nil
	}
	// A new launch's log is made after its record, and these were listed before
	// the records are: what has none is old.
	written, err := s.ids(scope)
	if err != nil {
		return err
	}
	for _, n := range files {
		base, _, _ := strings.Cut(n, ".")
		id, err := proof.ParseID(base)
		if err != nil || written[id] {
			continue
		}
		if d, err := s.Locate(scope, id); err == nil {
			d.Close() // it moved while we looked
		} else if errors.Is(err, fs.ErrNotExist) {
			s.root.Remove(filepath.Join(scope, logsDir, n))
		}
	}
	return nil
}

// tidyClaims removes the claims of a scope's launches whose record has ended:
// they hold nothing. What can't be read stays.
func (s *Store) tidyClaims(dir, scope string) error {
	claims, err := s.root.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer claims.Close()
	unlock, err := lockClaims(claims, 0)
	if err != nil {
		return err
	}
	defer unlock()
	d, err := claims.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	files, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range files {
		if strings.HasPrefix(n, ".") && strings.HasSuffix(n, ".tmp") {
			claims.Remove(n) // nobody writes here without the lock
		}
		if CheckName(n) != nil {
			continue
		}
		held, err := readClaim(claims, n)
		if err == nil && (dir != portsDir || held.Scope == scope) && !s.recorded(scope, held) {
			claims.Remove(n)
		}
	}
	return nil
}

// abandoned reports whether nobody is making this directory any more: it is
// old, and its lock, if it got one, is free.
func (s *Store) abandoned(rel string, e os.DirEntry) bool {
	fi, err := e.Info()
	if err != nil || time.Since(fi.ModTime()) < unfinished {
		return false
	}
	f, err := s.root.OpenFile(filepath.Join(rel, lockFile), os.O_RDWR|openFlags, 0)
	if err != nil {
		return os.IsNotExist(err)
	}
	defer f.Close()
	free, err := tryFlock(f)
	return free && err == nil
}
