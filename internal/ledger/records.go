package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/custody-project/custody/proof"
)

// The records of an owner, one file a launch: read and checked, written whole
// or not at all.

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
