package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"github.com/custody-project/custody/proof"
)

// Store is an opened state directory.
type Store struct {
	path string
	root *os.Root
}

// Options of OpenStore.
type Options struct {
	Create         bool // make the directory if it is missing
	AllowNetworkFS bool // locks of network file systems are not trusted otherwise
}

// OpenStore opens a state directory. A directory that other users can change,
// that is somebody else's, or that lies on a network file system is refused.
// Missing matches fs.ErrNotExist.
func OpenStore(path string, opt Options) (*Store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if opt.Create {
		if err := os.MkdirAll(filepath.Dir(abs), 0o700); err != nil {
			return nil, fmt.Errorf("make state directory: %w", err)
		}
		if err := os.Mkdir(abs, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make state directory: %w", err)
		}
	}
	// Lstat before, so that a link in the last element is not followed.
	fi, err := os.Lstat(abs)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if !fi.IsDir() {
		return nil, fmt.Errorf("state directory %s: is no directory (links are not followed)", abs)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := checkDir(root, "."); err != nil {
		root.Close()
		return nil, fmt.Errorf("state directory %s: %w", abs, err)
	}
	if net, err := networkFS(abs); err != nil || net != "" {
		if err != nil || !opt.AllowNetworkFS {
			root.Close()
			if err == nil {
				err = fmt.Errorf("lies on a network file system (%s), whose locks can't be trusted; choose a local directory with --dir or CUSTODY_DIR, or allow it by name", net)
			}
			return nil, fmt.Errorf("state directory %s: %w", abs, err)
		}
	}
	return &Store{path: abs, root: root}, nil
}

// Path returns the directory's absolute path.
func (s *Store) Path() string { return s.path }

// Close closes the directory; owners opened from it stay open.
func (s *Store) Close() error { return s.root.Close() }

// Odd is an entry that was set aside: named in every report, never believed,
// never deleted.
type Odd struct {
	Path   string
	Reason string
}

// Scopes lists the scopes that have a directory.
func (s *Store) Scopes() ([]string, []Odd, error) {
	return s.list(".", func(name string) error { return CheckScope(name) })
}

// Owners lists the owners of a scope, live or dead.
func (s *Store) Owners(scope string) ([]proof.ID, []Odd, error) {
	names, odd, err := s.list(scope, func(name string) error {
		if name == namesDir || name == logsDir {
			return errSkip
		}
		_, err := proof.ParseID(name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	ids := make([]proof.ID, len(names))
	for i, n := range names {
		ids[i], _ = proof.ParseID(n) // parsed by the filter above
	}
	return ids, odd, err
}

// Has reports whether the owner has a directory: a file missing in it is then
// no sign that the owner ended.
func (s *Store) Has(scope string, id proof.ID) bool {
	_, err := s.root.Lstat(filepath.Join(scope, id.String()))
	return err == nil
}

var errSkip = errors.New("skip")

// list returns the directories below rel that pass check.
func (s *Store) list(rel string, check func(string) error) (names []string, odd []Odd, err error) {
	d, err := s.root.Open(rel)
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		err := check(e.Name())
		if err == errSkip || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err == nil && !e.IsDir() {
			err = errors.New("is no directory")
		}
		if err == nil {
			err = checkDir(s.root, filepath.Join(rel, e.Name()))
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // ended meanwhile
		}
		if unaskable(err) {
			return nil, nil, fmt.Errorf("list %s: %w", filepath.Join(s.path, rel), err)
		}
		if err != nil {
			odd = append(odd, Odd{filepath.Join(s.path, rel, e.Name()), err.Error()})
			continue
		}
		names = append(names, e.Name())
	}
	sort.Strings(names)
	return names, odd, nil
}

// unaskable reports whether an error says that we could not ask, and nothing
// of what was asked about.
func unaskable(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
