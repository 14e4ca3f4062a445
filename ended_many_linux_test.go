package custody_test

import (
	"testing"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/sweep"
)

// A server that crashes and is started again all day leaves a bounded number of
// records and logs, and costs no other launch its own.
func TestEndedOfANameAreBounded(t *testing.T) {
	dir := stateDir(t)
	// Each by an owner of its own, as custody start is.
	end := func(name string) (id, log string) {
		o := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
		id, log = hasEnded(t, o, dir, name)
		must(t, o.Close())
		return id, log
	}
	other, otherLog := end("db")
	var ids, logs []string
	for range sweep.KeptOfName + 3 {
		id, log := end("web")
		ids, logs = append(ids, id), append(logs, log)
	}
	sweepOnce := func(dry bool) {
		_, err := custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir, DryRun: dry})
		must(t, err)
	}
	sweepOnce(true)
	for _, id := range append(ids, other) {
		if len(recordFiles(t, dir, id)) != 1 {
			t.Fatalf("launch %s has gone by a look", id)
		}
	}
	for range 2 { // what is left stays
		sweepOnce(false)
		for i, id := range ids {
			want := i >= len(ids)-sweep.KeptOfName
			if got := len(recordFiles(t, dir, id)) == 1; got != want || there(logs[i]) != want {
				t.Errorf("launch %d of %d: record %t, log %t", i, len(ids), got, there(logs[i]))
			}
		}
		if len(recordFiles(t, dir, other)) != 1 || !there(otherLog) {
			t.Error("another name's is gone")
		}
	}
}

// An owner that lives for months forgets as well.
func TestEndedOfALivingOwnerAreBounded(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	other, otherLog := hasEnded(t, o, dir, "db")
	var ids, logs []string
	for range sweep.KeptOfName + 3 {
		id, log := hasEnded(t, o, dir, "web")
		ids, logs = append(ids, id), append(logs, log)
	}
	for i, id := range ids {
		want := i >= len(ids)-sweep.KeptOfName
		if got := len(recordFiles(t, dir, id)) == 1; got != want || there(logs[i]) != want {
			t.Errorf("launch %d of %d: record %t, log %t", i, len(ids), got, there(logs[i]))
		}
	}
	if len(recordFiles(t, dir, other)) != 1 || !there(otherLog) {
		t.Error("another name's is gone")
	}
}
