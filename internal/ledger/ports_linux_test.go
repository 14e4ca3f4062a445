package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/custody-project/custody/proof"
)

// A port is one for all scopes, and is held by the record, not by a process.
func TestPortIsALease(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	rec := ownerRecord()
	rec.Scope = "other"
	p, err := s.NewOwner(rec)
	must(t, err)
	defer p.Close()
	first, second := goodRecord(o), goodRecord(p)
	first.Ports = []int{8000, 8001}
	must(t, o.Write(first))
	must(t, p.Write(second))
	claim := func(o *Owner, r *Record, port int) error {
		return s.ClaimPort(port, Claim{Scope: o.Scope, Owner: o.ID, Launch: r.ID})
	}
	must(t, claim(o, first, 8000))
	must(t, claim(o, first, 8000)) // again by its holder
	must(t, claim(o, first, 8001))
	var held *PortClaimedError
	if err := claim(p, second, 8000); !errors.As(err, &held) || held.Port != 8000 || held.Holder.Launch != first.ID || held.Holder.Scope != o.Scope || held.Reason != "" {
		t.Fatalf("second claim: %v", err)
	}
	if scopes, odd, err := s.Scopes(); err != nil || len(odd) > 0 || !slices.Equal(scopes, []string{"other", o.Scope}) {
		t.Errorf("scopes %v %v %v", scopes, odd, err)
	}
	// A tidy of either scope leaves what is held.
	must(t, s.Tidy(o.Scope))
	must(t, s.Tidy("other"))
	if err := claim(p, second, 8000); !errors.As(err, &held) {
		t.Fatalf("after tidying: %v", err)
	}
	must(t, o.Remove(first.ID))
	must(t, o.ReleasePorts(first.Ports[:1], second.ID)) // not its claim
	path := filepath.Join(s.Path(), portsDir, "8000")
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	must(t, o.ReleasePorts(first.Ports[:1], first.ID))
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("released, and there still: %v", err)
	}
	must(t, o.ReleasePorts([]int{9}, first.ID)) // never claimed
	// A claim without a record holds nothing, and is tidied away in time.
	must(t, claim(p, second, 8001))
	must(t, p.Remove(second.ID))
	must(t, s.Tidy("other"))
	if _, err := os.Stat(filepath.Join(s.Path(), portsDir, "8001")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("tidied, and there still: %v", err)
	}
}

func TestOneOfManyGetsThePort(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	records := make([]*Record, 8)
	for i := range records {
		records[i] = goodRecord(o)
		must(t, o.Write(records[i]))
	}
	for port := range 50 {
		var won atomic.Int32
		var wg sync.WaitGroup
		for _, r := range records {
			wg.Go(func() {
				err := s.ClaimPort(1+port, Claim{Scope: o.Scope, Owner: o.ID, Launch: r.ID})
				var held *PortClaimedError
				switch {
				case err == nil:
					won.Add(1)
				case !errors.As(err, &held):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d got the port", won.Load())
		}
	}
}

func TestPortClaimThatCantBeBelieved(t *testing.T) {
	for what, content := range map[string]string{
		"empty": "", "garbage": "{", "newer": `{"version":2}`,
		"no scope":     `{"version":1,"owner":"` + proof.NewID().String() + `","launch":"` + proof.NewID().String() + `"}`,
		"hostile path": `{"version":1,"scope":"../..","owner":"` + proof.NewID().String() + `","launch":"` + proof.NewID().String() + `"}`,
	} {
		s := testStore(t)
		o := testOwner(t, s)
		must(t, os.Mkdir(filepath.Join(s.Path(), portsDir), 0o700))
		must(t, os.WriteFile(filepath.Join(s.Path(), portsDir, "80"), []byte(content), 0o600))
		var held *PortClaimedError
		if err := s.ClaimPort(80, Claim{Scope: o.Scope, Owner: o.ID, Launch: proof.NewID()}); !errors.As(err, &held) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPortsOfARecord(t *testing.T) {
	o := testOwner(t, testStore(t))
	for what, ports := range map[string][]int{
		"none": {}, "zero": {0}, "negative": {-1}, "too high": {65536}, "twice": {80, 81, 80}, "too many": make([]int, MaxPorts+1),
		"good": {1, 65535, 8000},
	} {
		r := goodRecord(o)
		r.Ports = ports
		_, err := EncodeRecord(r)
		if good := what == "good" || what == "none"; good != (err == nil) {
			t.Errorf("%s: %v", what, err)
		} else if err != nil && !strings.Contains(err.Error(), "port") {
			t.Errorf("%s: %v", what, err)
		}
	}
	s := testStore(t)
	if err := s.ClaimPort(0, Claim{}); err == nil {
		t.Error("port 0 was claimed")
	}
}
