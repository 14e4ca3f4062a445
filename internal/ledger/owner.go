package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
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

// Write writes a launch's record: into a new file, then renamed over the old
// one. It is synced to disk if it names something that outlives a boot.
func (o *Owner) Write(r *Record) error {
	r.Version = Version
	b, err := EncodeRecord(r)
	if err != nil {
		return fmt.Errorf("record %s: %w", r.ID, err)
	}
	if err := o.writeFile(r.ID.String()+".json", b, len(r.Assets) > 0 || r.Container != nil); err != nil {
		return fmt.Errorf("record %s: %w", r.ID, err)
	}
	return nil
}

// Read reads a launch's record. Missing matches fs.ErrNotExist.
func (o *Owner) Read(id proof.ID) (*Record, error) {
	b, err := o.readFile(id.String() + ".json")
	if err != nil {
		return nil, err
	}
	r, err := DecodeRecord(b)
	if err != nil {
		return nil, err
	}
	if r.ID != id {
		return nil, fmt.Errorf("names launch %s, but its file is named %s", r.ID, id)
	}
	// One that is being taken over names both its old owner and its new one.
	if r.Owner != o.ID && r.TakenBy != o.ID || r.Scope != o.Scope {
		return nil, fmt.Errorf("names owner %s of scope %q, but lies in the directory of %s of %q", r.Owner, r.Scope, o.ID, o.Scope)
	}
	return r, nil
}

// Has reports whether there is a record of the launch, whatever it says.
func (o *Owner) Has(id proof.ID) bool {
	_, err := o.root.Lstat(id.String() + ".json")
	return err == nil
}

// Update reads a record, changes it and writes it back, alone among the
// processes that do so.
func (o *Owner) Update(id proof.ID, change func(*Record)) error {
	unlock, err := o.lockRange(id, rangeUpdate)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := o.Read(id)
	if err != nil {
		return err
	}
	change(r)
	return o.Write(r)
}

// Rewrite writes a record that is still there; one that somebody ended meanwhile
// is fs.ErrNotExist, and does not rise again.
func (o *Owner) Rewrite(r *Record) error {
	unlock, err := o.lockRange(r.ID, rangeUpdate)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := o.root.Lstat(r.ID.String() + ".json"); err != nil {
		return fmt.Errorf("record %s: %w", r.ID, err)
	}
	return o.Write(r)
}

// Replace is Update where there is no room for a second record: the old one is
// removed first. gone says that there is none now, since the new one could not
// be written all the same.
func (o *Owner) Replace(id proof.ID, change func(*Record)) (gone bool, err error) {
	unlock, err := o.lockRange(id, rangeUpdate)
	if err != nil {
		return false, err
	}
	defer unlock()
	r, err := o.Read(id)
	if err != nil {
		return false, err
	}
	change(r)
	if err := o.root.Remove(id.String() + ".json"); err != nil {
		return false, err
	}
	err = o.Write(r)
	return err != nil, err
}

// Remove ends a record. A missing one is no error. It waits for a writer, and
// one that comes later finds nothing to update: a record never rises again.
func (o *Owner) Remove(id proof.ID) error {
	unlock, err := o.lockRange(id, rangeUpdate)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // with the whole directory
	}
	if err != nil {
		return err
	}
	defer unlock()
	err = o.root.Remove(id.String() + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Records reads every record of the owner. What can't be believed is returned
// as odd.
func (o *Owner) Records() (recs []*Record, odd []Odd, err error) {
	d, err := o.root.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range names {
		base, isJSON := strings.CutSuffix(n, ".json")
		if n == ownerFile || n == lockFile || strings.HasPrefix(n, ".") {
			continue
		}
		id, err := proof.ParseID(base)
		if !isJSON {
			err = errors.New("is no record")
		}
		var r *Record
		if err == nil {
			r, err = o.Read(id)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // ended meanwhile
		}
		if err != nil {
			odd = append(odd, Odd{filepath.Join(o.path, n), err.Error()})
			continue
		}
		recs = append(recs, r)
	}
	return recs, odd, nil
}

// Untouched lists the launches whose records were not written for so long,
// without reading them.
func (o *Owner) Untouched(age time.Duration) []proof.ID {
	d, err := o.root.Open(".")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var old []proof.ID
	for _, n := range names {
		id, err := proof.ParseID(strings.TrimSuffix(n, ".json"))
		if err != nil {
			continue
		}
		if fi, err := o.root.Lstat(n); err == nil && time.Since(fi.ModTime()) > age {
			old = append(old, id)
		}
	}
	return old
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

// readFile reads a file of ours without following links; anything but a
// private regular file of our own is refused.
func (o *Owner) readFile(name string) ([]byte, error) { return readPrivate(o.root, name) }

func readPrivate(root *os.Root, name string) ([]byte, error) {
	for try := 0; ; try++ {
		f, err := openPrivate(root, name)
		if errors.Is(err, errReplaced) && try < 1000 {
			continue // a writer put another file in its place meanwhile: read that
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, MaxRecord+1))
		if err != nil {
			return nil, err
		}
		return b, nil
	}
}

// errReplaced says that the name means another file by now.
var errReplaced = errors.New("was replaced while it was opened")

func openPrivate(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if fi, e := root.Lstat(name); e == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return nil, errors.New("is a link to nothing")
		} else if e == nil {
			return nil, errReplaced
		}
	}
	if err != nil {
		return nil, err
	}
	if err = checkFile(f); errors.Is(err, fs.ErrNotExist) {
		err = errReplaced
	}
	if err == nil {
		err = notLinked(root, name, f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// notLinked refuses a file that was reached through a link: an os.Root follows
// links that stay inside it, whatever the flags of the open say.
func notLinked(root *os.Root, name string, f *os.File) error {
	named, err := root.Lstat(name)
	if err != nil {
		return err
	}
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	switch {
	case os.SameFile(named, opened):
		return nil
	case named.Mode()&fs.ModeSymlink != 0:
		return errors.New("is a link")
	}
	return errReplaced
}

func (o *Owner) writeFile(name string, b []byte, sync bool) error {
	return writePrivate(o.root, name, b, sync)
}

func writePrivate(root *os.Root, name string, b []byte, sync bool) error {
	// A name of its own: two writers never share a file, and what a crash
	// leaves under a fixed one is never written through.
	tmp := fmt.Sprintf(".%s.%016x.tmp", name, rand.Uint64())
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && sync {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		crash.Here("half-written")
		err = root.Rename(tmp, name)
	}
	if err != nil {
		root.Remove(tmp)
		return err
	}
	if sync {
		d, err := root.Open(".")
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Sync()
	}
	return nil
}
