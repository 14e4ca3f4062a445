package ledger

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody/proof"
)

// Whatever is decoded encodes to the same record again, and nothing that is
// decoded names a process that must never be signalled.
func FuzzDecodeRecord(f *testing.F) {
	r := &Record{Version: Version, ID: proof.NewID(), Owner: proof.NewID(), Scope: "s", State: Running, OnOwnerDeath: Kill,
		Phases: []Phase{{"TERM", time.Second}}, DeathPhases: []Phase{{"KILL", 0}}, Boot: "b", PIDNS: 1,
		Leader: &proof.Identity{PID: 2, Start: 1}, Command: []string{"x"}}
	b, err := EncodeRecord(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, s := range []string{"", "{}", "null", "[]", `{"version":1}`, `{"version":1e0}`, `{"version":1}{}`, "\x00"} {
		f.Add([]byte(s))
	}
	for _, pid := range []string{"0", "-1", "1", "+0", "4294967296"} {
		f.Add(bytes.Replace(b, []byte(`"pid": 2`), []byte(`"pid": `+pid), 1))
	}
	f.Add([]byte(strings.ToUpper(string(b))))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			return
		}
		for _, id := range append(r.Members, *orZero(r.Leader), *orZero(r.Keeper)) {
			if !id.IsZero() && (id.PID <= 1 || id.PID > 1<<22) {
				t.Fatalf("pid %d was let in", id.PID)
			}
		}
		once, err := EncodeRecord(r)
		if err != nil {
			t.Fatalf("decoded, but can't be encoded: %v", err)
		}
		r2, err := DecodeRecord(once)
		if err != nil {
			t.Fatalf("encoded, but can't be decoded: %v\n%s", err, once)
		}
		twice, err := EncodeRecord(r2)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v\n%s\n%s", err, once, twice)
		}
	})
}

func orZero(id *proof.Identity) *proof.Identity {
	if id == nil {
		return &proof.Identity{}
	}
	return id
}
