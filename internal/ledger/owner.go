package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/proof"
)

// Owner is the opened directory of one owner.
type Owner struct {
	Scope string
	ID    proof.ID

	path string
	root *os.Root
	lock *os.File // set while we hold the owner's lock
}

const (
	lockFile  = "lock"
	ownerFile = "owner.json"
	namesDir  = "names"
	logsDir   = "logs"
	newPrefix = ".new-" // of an owner's directory that is being made
	oldPrefix = ".old-" // of one that is being removed
)

// NewOwner makes the directory of a new owner and takes its lock.
func (s *Store) NewOwner(rec OwnerRecord) (*Owner, error) {
	if err := CheckScope(rec.Scope); err != nil {
		return nil, err
	}
	if err := s.root.Mkdir(rec.Scope, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make scope: %w", err)
	}
	if err := checkDir(s.root, rec.Scope); err != nil {
		return nil, fmt.Errorf("scope %s: %w", rec.Scope, err)
	}
	// The directory is made under a hidden name and renamed once it is whole
	// and locked, so that no sweeper ever sees a live owner unlocked.
	rel := filepath.Join(rec.Scope, rec.ID.String())
	tmp := filepath.Join(rec.Scope, newPrefix+rec.ID.String())
	if err := s.root.Mkdir(tmp, 0o700); err != nil {
		return nil, fmt.Errorf("make owner: %w", err)
	}
	crash.Here("owner-new")
	o, err := s.openOwner(tmp, rec.Scope, rec.ID)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Owner, error) {
		o.Close()
		s.root.RemoveAll(tmp)
		return nil, err
	}
	f, err := o.root.OpenFile(lockFile, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fail(fmt.Errorf("make owner lock: %w", err))
	}
	if ok, err := tryFlock(f); err != nil || !ok {
		f.Close()
		return fail(fmt.Errorf("lock owner: held already or: %w", errors.Join(err, fs.ErrExist)))
	}
	o.lock = f
	if err := o.WriteOwner(rec); err != nil {
		return fail(err)
	}
	if err := s.root.Rename(tmp, rel); err != nil {
		return fail(fmt.Errorf("make owner: %w", err))
	}
	crash.Here("owner-made")
	o.path = filepath.Join(s.path, rel)
	return o, nil
}

// OpenOwner opens the directory of an owner without locking it.
func (s *Store) OpenOwner(scope string, id proof.ID) (*Owner, error) {
	return s.openOwner(filepath.Join(scope, id.String()), scope, id)
}

func (s *Store) openOwner(rel, scope string, id proof.ID) (*Owner, error) {
	if err := checkDir(s.root, rel); err != nil {
		return nil, fmt.Errorf("owner %s: %w", id, err)
	}
	root, err := s.root.OpenRoot(rel)
	if err != nil {
		return nil, fmt.Errorf("owner %s: %w", id, err)
	}
	return &Owner{Scope: scope, ID: id, path: filepath.Join(s.path, rel), root: root}, nil
}

// OpenOwnerAt opens an owner's directory by its path, for a helper process
// that was handed it.
func OpenOwnerAt(path string) (*Owner, error) {
	id, err := proof.ParseID(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	if err := checkDir(root, "."); err != nil {
		root.Close()
		return nil, fmt.Errorf("owner %s: %w", id, err)
	}
	return &Owner{Scope: filepath.Base(filepath.Dir(path)), ID: id, path: path, root: root}, nil
}

// OpenStoreOf opens the state directory that an owner's directory lies in.
func OpenStoreOf(o *Owner) (*Store, error) {
	return OpenStore(filepath.Dir(filepath.Dir(o.path)), Options{AllowNetworkFS: true})
}

// Path returns the owner's directory.
func (o *Owner) Path() string { return o.path }

// LogPath returns the newest file of a launch's log. It lies beside the
// owners' directories, so that it stays where it is when the launch is taken
// over.
func (o *Owner) LogPath(id proof.ID) string {
	return filepath.Join(filepath.Dir(o.path), logsDir, id.String()+".log")
}

// Close lets go of the directory and of the lock, if held.
func (o *Owner) Close() error {
	o.Unlock()
	return o.root.Close()
}

// TryLock takes the owner's lock. It returns false while a live owner or
// another sweeper holds it. After locking it checks that the path still names
// the locked file, so that nobody works on a directory that was removed.
func (o *Owner) TryLock() (bool, error) {
	f, err := o.openLock()
	if err != nil {
		return false, err
	}
	ok, err := tryFlock(f)
	if err != nil || !ok {
		f.Close()
		return false, err
	}
	locked, err1 := f.Stat()
	named, err2 := os.Lstat(filepath.Join(o.path, lockFile))
	if err1 != nil || err2 != nil || !os.SameFile(locked, named) {
		f.Close()
		return false, fmt.Errorf("owner %s: %w", o.ID, fs.ErrNotExist)
	}
	o.lock = f
	return true, nil
}

// Lock is TryLock that waits, for a lock that is only ever held for a moment.
func (o *Owner) Lock(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		locked, err := o.TryLock()
		if locked || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("owner %s: %s holds its lock: %w", o.ID, o.Holder(), ctx.Err())
		case <-time.After(pause):
		}
	}
}

// openLock opens the lock file for writing, or for reading where the file
// system is read-only: flock needs no more.
func (o *Owner) openLock() (*os.File, error) {
	f, err := o.root.OpenFile(lockFile, os.O_RDWR|openFlags, 0)
	if errors.Is(err, errReadOnly) {
		f, err = o.root.OpenFile(lockFile, os.O_RDONLY|openFlags, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("owner %s: lock: %w", o.ID, err)
	}
	if err = checkFile(f); err == nil {
		err = notLinked(o.root, lockFile, f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("owner %s: lock: %w", o.ID, err)
	}
	return f, nil
}

// Unlock lets go of the lock.
func (o *Owner) Unlock() {
	if o.lock != nil {
		o.lock.Close() // the last descriptor of the open file frees a flock
		o.lock = nil
	}
}

// ReadOwner reads owner.json.
func (o *Owner) ReadOwner() (*OwnerRecord, error) {
	b, err := o.readFile(ownerFile)
	if err != nil {
		return nil, err
	}
	rec := new(OwnerRecord)
	if err := decode(b, rec); err != nil {
		return nil, err
	}
	if rec.ID != o.ID || rec.Scope != o.Scope {
		return nil, fmt.Errorf("names owner %s of scope %q, but lies in the directory of %s of %q", rec.ID, rec.Scope, o.ID, o.Scope)
	}
	if rec.Boot == "" || rec.PIDNS == 0 {
		return nil, errors.New("no boot or PID namespace: nothing can be proven of it")
	}
	return rec, rec.Process.ValidOwner()
}

// WriteOwner writes owner.json.
func (o *Owner) WriteOwner(rec OwnerRecord) error {
	rec.Version = Version
	b, err := encode(rec)
	if err != nil {
		return err
	}
	return o.writeFile(ownerFile, b, false)
}

// vacant returns an error that matches fs.ErrExist if the owner has records.
func (o *Owner) vacant() error {
	recs, odd, err := o.Records()
	if n := len(recs) + len(odd); err == nil && n > 0 {
		err = fmt.Errorf("owner %s: %d records left: %w", o.ID, n, fs.ErrExist)
	}
	return err
}

// RemoveOwner removes the directory of an owner whose records have all ended.
// The owner's lock must be held, and none of its launches'. It returns an error
// that matches fs.ErrExist if something is left in it, or somebody is at work
// there.
func (s *Store) RemoveOwner(o *Owner) error {
	if o.lock == nil {
		return fmt.Errorf("owner %s: remove without its lock", o.ID)
	}
	if err := o.vacant(); err != nil {
		return err
	}
	// A listing may leave out a file that is replaced meanwhile (btrfs), so
	// nobody writes during the look that counts.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	release, err := o.holdAll(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	if err != nil {
		return err
	}
	defer release()
	if err := o.vacant(); err != nil {
		return err
	}
	// Out of sight first: a crash while its files are removed one by one must
	// not leave a directory that looks like an owner's and can't be believed.
	old := filepath.Join(o.Scope, oldPrefix+o.ID.String())
	if err := s.root.Rename(filepath.Join(o.Scope, o.ID.String()), old); err != nil {
		return fmt.Errorf("owner %s: remove: %w", o.ID, err)
	}
	crash.Here("owner-old")
	return s.root.RemoveAll(old)
}
