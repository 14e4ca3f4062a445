package ledger

// What every test here needs: a store of its own, an owner in it, a record
// that is good until the test spoils it.

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/custody-project/custody/proof"
)

func testStore(t *testing.T) *Store {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStore(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func ownerRecord() OwnerRecord {
	return OwnerRecord{Version: Version, ID: proof.NewID(), Scope: "test", Host: "h", Boot: "b", PIDNS: 7,
		Process: proof.Identity{PID: 4242, Start: 9}}
}

func testOwner(t *testing.T, s *Store) *Owner {
	t.Helper()
	o, err := s.NewOwner(ownerRecord())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o
}

func goodRecord(o *Owner) *Record {
	id := proof.NewID()
	return &Record{
		Version: Version, ID: id, Scope: o.Scope, Owner: o.ID, Name: "n", State: Running,
		Labels: map[string]string{"Any Key": "v"}, OnOwnerDeath: Kill, Level: "group",
		Phases: []Phase{{"TERM", time.Second}}, DeathPhases: []Phase{{"KILL", 0}},
		Host: "h", Boot: "b", PIDNS: 7, UID: os.Geteuid(), IntentTicks: 5,
		Leader: &proof.Identity{PID: 4242, PGID: 4242, SID: 4242, UID: os.Geteuid(), Start: 6, Inode: 77,
			FileHandle: "0102030405060708", FileHandleType: 254},
		Assets:    []Asset{{Kind: TempDir, Path: "/tmp/custody-" + id.String() + "-D", Env: "D", Marker: id.String()}},
		Command:   []string{"sleep", "60"},
		StartedAt: time.Date(2025, 3, 4, 5, 6, 7, 0, time.UTC),
	}
}

// put writes a file into the owner's directory as nobody else would.
func put(t *testing.T, o *Owner, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(o.Path(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
