package ledger

// Who excludes whom: the live owner everybody, a sweeper the others, a stop
// the other stops; and nobody works on a directory that is gone.

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/custody-project/custody/proof"
)

func TestLiveOwnerExcludes(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	d, err := s.OpenOwner(o.Scope, o.ID)
	must(t, err)
	defer d.Close()
	if ok, err := d.TryLock(); ok || err != nil {
		t.Fatalf("a live owner's lock was taken: %v, %v", ok, err)
	}
	if err := s.RemoveOwner(d); err == nil {
		t.Fatal("an owner was removed without its lock")
	}
	must(t, o.Close())
	if ok, err := d.TryLock(); !ok || err != nil {
		t.Fatalf("a dead owner's lock is not free: %v, %v", ok, err)
	}
	e, err := s.OpenOwner(o.Scope, o.ID)
	must(t, err)
	defer e.Close()
	if ok, err := e.TryLock(); ok || err != nil {
		t.Fatalf("two sweepers hold one lock: %v, %v", ok, err)
	}
	must(t, s.RemoveOwner(d))
	if s.Has(o.Scope, o.ID) {
		t.Error("still there")
	}
	// e still has the directory open; its lock file is nobody's any more.
	d.Close()
	if ok, err := e.TryLock(); ok || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("locked what was removed: %v, %v", ok, err)
	}
	if _, err := s.OpenOwner(o.Scope, o.ID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened what was removed: %v", err)
	}
}

// Another directory under the same name must not be taken for the locked one.
func TestLockIsOfTheNamedFile(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	d, err := s.OpenOwner(o.Scope, o.ID)
	must(t, err)
	defer d.Close()
	must(t, o.Close())
	must(t, os.Rename(d.Path(), d.Path()+"x"))
	must(t, os.Mkdir(d.Path(), 0o700))
	must(t, os.WriteFile(filepath.Join(d.Path(), lockFile), nil, 0o600))
	if ok, err := d.TryLock(); ok || err == nil {
		t.Errorf("locked %v, %v", ok, err)
	}
}

func TestLockFileIsAFile(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	d, err := s.OpenOwner(o.Scope, o.ID)
	must(t, err)
	defer d.Close()
	must(t, o.Close())
	lock := filepath.Join(d.Path(), lockFile)
	must(t, os.Rename(lock, filepath.Join(d.Path(), ".elsewhere")))
	if ok, err := d.TryLock(); ok || !errors.Is(err, fs.ErrNotExist) || !s.Has(o.Scope, o.ID) {
		t.Errorf("no lock file: %v, %v", ok, err)
	}
	must(t, os.Symlink(".elsewhere", lock))
	if ok, err := d.TryLock(); ok || err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("a link: %v, %v", ok, err)
	}
}

func TestStopLock(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	id := proof.NewID()
	release, err := o.HoldStop(t.Context(), id)
	must(t, err)
	if _, ok, err := o.TryHoldStop(id); ok || err != nil {
		t.Fatalf("held twice: %v, %v", ok, err)
	}
	other, ok, err := o.TryHoldStop(proof.NewID())
	if !ok || err != nil {
		t.Fatalf("another launch's lock: %v, %v", ok, err)
	}
	other()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := o.HoldStop(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waited, then %v", err)
	}
	got := make(chan error, 1)
	go func() {
		r, err := o.HoldStop(context.Background(), id)
		if err == nil {
			r()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	select {
	case err := <-got:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("never got the lock")
	}
	// The lock of the record's update is another one.
	release, err = o.HoldStop(t.Context(), id)
	must(t, err)
	defer release()
	unlock, err := o.lockRange(id, rangeUpdate)
	must(t, err)
	unlock()
}

func TestUpdatesDoNotLoseEachOther(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	r := goodRecord(o)
	must(t, o.Write(r))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			d, err := s.OpenOwner(o.Scope, o.ID)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			for range 10 {
				if err := d.Update(r.ID, func(r *Record) { r.PhasesSent++ }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	// Readers meanwhile never see half a record.
	stop := make(chan bool)
	go func() {
		defer close(stop)
		wg.Wait()
	}()
	for running := true; running; {
		select {
		case <-stop:
			running = false
		default:
			if _, odd, err := o.Records(); err != nil || len(odd) > 0 {
				t.Errorf("%v, %v", odd, err)
			}
		}
	}
	if got, err := o.Read(r.ID); err != nil || got.PhasesSent != 80 {
		t.Errorf("%d of 80 updates are left, %v", got.PhasesSent, err)
	}
	left, err := filepath.Glob(filepath.Join(o.Path(), ".*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTidy(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	scope := filepath.Dir(o.Path())
	age := func(p string) string {
		then := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(p, then, then))
		return p
	}
	mk := func(name string) string {
		p := filepath.Join(scope, name)
		must(t, os.Mkdir(p, 0o700))
		must(t, os.WriteFile(filepath.Join(p, ownerFile), nil, 0o600))
		return p
	}
	litter := []string{
		mk(oldPrefix + proof.NewID().String()),
		age(mk(newPrefix + proof.NewID().String())),
	}
	locked := mk(newPrefix + proof.NewID().String())
	f, err := os.Create(filepath.Join(locked, lockFile))
	must(t, err)
	defer f.Close()
	if ok, err := tryFlock(f); !ok || err != nil {
		t.Fatal(ok, err)
	}
	kept := []string{mk(newPrefix + proof.NewID().String()), age(locked), o.Path(), mk("." + proof.NewID().String())}
	must(t, s.Tidy(o.Scope))
	for _, p := range litter {
		if _, err := os.Stat(p); err == nil {
			t.Errorf("left: %s", p)
		}
	}
	for _, p := range kept {
		if _, err := os.Stat(p); err != nil {
			t.Errorf("removed: %s", p)
		}
	}
}

// A file that is replaced may be missing from a listing for a moment: an
// owner's directory is not removed under somebody who writes a record.
func TestRemoveOwnerWaitsForWriters(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	r := goodRecord(o)
	must(t, o.Write(r))
	file := filepath.Join(o.Path(), r.ID.String()+".json")
	unlock, err := o.lockRange(r.ID, rangeUpdate)
	must(t, err)
	must(t, os.Rename(file, filepath.Join(s.Path(), "away")))
	got := make(chan error, 1)
	go func() { got <- s.RemoveOwner(o) }()
	select {
	case err := <-got:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	must(t, os.Rename(filepath.Join(s.Path(), "away"), file))
	unlock()
	if err := <-got; !errors.Is(err, fs.ErrExist) {
		t.Errorf("remove: %v", err)
	}
	if _, err := o.Read(r.ID); err != nil {
		t.Errorf("the record: %v", err)
	}
}
