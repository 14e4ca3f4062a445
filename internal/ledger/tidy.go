package ledger

import (
	"os"
	"path/filepath"
	"strings"
	"time"
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
