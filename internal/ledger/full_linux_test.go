package ledger

// A disk that is full, and one that is read-only: nothing new is begun, and
// everything a stop needs still works.

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// smallStore is a store on a file system of its own.
func smallStore(t *testing.T) *Store {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=700"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	s, err := OpenStore(dir, Options{})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, ".fill")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return path
}

func TestFullDisk(t *testing.T) {
	s := smallStore(t)
	o := testOwner(t, s)
	r := goodRecord(o)
	must(t, o.Write(r))
	ballast := fill(t, s.Path())

	if err := o.Write(goodRecord(o)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("write: %v", err)
	}
	if err := o.Update(r.ID, func(r *Record) { r.PhasesSent = 9 }); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("update: %v", err)
	}
	if err := s.ClaimName(o.Scope, "n", Claim{Owner: o.ID, Launch: r.ID}); err == nil {
		t.Error("a name was claimed on a full disk")
	}
	stillWorks(t, s, o, r)
	if left, _ := filepath.Glob(filepath.Join(o.Path(), ".*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	must(t, os.Remove(ballast))
	must(t, o.Update(r.ID, func(r *Record) { r.PhasesSent = 9 }))
	must(t, o.Remove(r.ID))
}

func TestReadOnlyDisk(t *testing.T) {
	s := smallStore(t)
	o := testOwner(t, s)
	r := goodRecord(o)
	must(t, o.Write(r))
	must(t, o.Close()) // with a file open for writing the mount would be busy
	must(t, unix.Mount("", s.Path(), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	o, err := s.OpenOwner(o.Scope, o.ID)
	must(t, err)
	defer o.Close()
	if ok, err := o.TryLock(); !ok || err != nil {
		t.Fatalf("the sweeper's lock: %v, %v", ok, err)
	}

	if err := o.Write(goodRecord(o)); !errors.Is(err, unix.EROFS) {
		t.Errorf("write: %v", err)
	}
	if err := o.Update(r.ID, func(r *Record) {}); !errors.Is(err, unix.EROFS) {
		t.Errorf("update: %v", err)
	}
	if err := s.ClaimName(o.Scope, "n", Claim{Owner: o.ID, Launch: r.ID}); err == nil {
		t.Error("a name was claimed on a read-only disk")
	}
	if _, err := s.NewOwner(ownerRecord()); err == nil {
		t.Error("an owner was made on a read-only disk")
	}
	stillWorks(t, s, o, r)
}

// stillWorks tries what a stop needs.
func stillWorks(t *testing.T, s *Store, o *Owner, r *Record) {
	t.Helper()
	if got, err := o.Read(r.ID); err != nil || got.PhasesSent != r.PhasesSent {
		t.Errorf("the record: %v", err)
	}
	release, err := o.HoldStop(t.Context(), r.ID)
	if err != nil {
		t.Errorf("the stop lock: %v", err)
		return
	}
	release()
	d, err := s.OpenOwner(o.Scope, o.ID)
	must(t, err)
	defer d.Close()
	if ok, err := d.TryLock(); ok || err != nil {
		t.Errorf("the owner's lock: %v, %v", ok, err)
	}
}
