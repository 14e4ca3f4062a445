package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/custody-project/custody/proof"
)

func TestNameIsALease(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	first, second := goodRecord(o), goodRecord(o)
	must(t, o.Write(first))
	must(t, o.Write(second))
	claim := func(r *Record) error { return s.ClaimName(o.Scope, "n", Claim{Owner: o.ID, Launch: r.ID}) }
	must(t, claim(first))
	must(t, claim(first)) // again by its holder
	var held *NameHeldError
	if err := claim(second); !errors.As(err, &held) || held.Holder.Launch != first.ID || held.Reason != "" {
		t.Fatalf("second claim: %v", err)
	}
	// Another scope has names of its own.
	must(t, os.Mkdir(filepath.Join(s.Path(), "other"), 0o700))
	must(t, s.ClaimName("other", "n", Claim{Owner: o.ID, Launch: second.ID}))

	// The holder's owner dies: the record, not the process, holds the name.
	must(t, o.Close())
	if err := claim(second); !errors.As(err, &held) {
		t.Fatalf("after the owner's end: %v", err)
	}
	d, err := s.OpenOwner(o.Scope, o.ID)
	must(t, err)
	defer d.Close()
	must(t, d.Remove(first.ID))
	must(t, claim(second))
	if err := claim(first); !errors.As(err, &held) || held.Holder.Launch != second.ID {
		t.Errorf("taken over twice: %v", err)
	}
}

func TestOneOfManyGetsTheName(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	records := make([]*Record, 8)
	for i := range records {
		records[i] = goodRecord(o)
		must(t, o.Write(records[i]))
	}
	for round := range 100 {
		name := fmt.Sprintf("n%d", round)
		var won atomic.Int32
		var wg sync.WaitGroup
		for _, r := range records {
			wg.Go(func() {
				err := s.ClaimName(o.Scope, name, Claim{Owner: o.ID, Launch: r.ID})
				var held *NameHeldError
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
			t.Fatalf("%d got the name", won.Load())
		}
	}
}

// A claim that can't be read holds the name: it may be a live launch's.
func TestClaimThatCantBeBelieved(t *testing.T) {
	for what, spoil := range map[string]func(path string) error{
		"empty":    func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"garbage":  func(p string) error { return os.WriteFile(p, []byte("{"), 0o600) },
		"newer":    func(p string) error { return os.WriteFile(p, []byte(`{"version":2}`), 0o600) },
		"open":     func(p string) error { return os.Chmod(p, 0o666) },
		"dangling": func(p string) error { os.Remove(p); return os.Symlink("nowhere", p) },
		"link":     func(p string) error { os.Rename(p, p+"x"); return os.Symlink("nx", p) },
		"dir":      func(p string) error { os.Remove(p); return os.Mkdir(p, 0o700) },
	} {
		s := testStore(t)
		o := testOwner(t, s)
		r := goodRecord(o)
		must(t, o.Write(r))
		must(t, s.ClaimName(o.Scope, "n", Claim{Owner: o.ID, Launch: r.ID}))
		path := filepath.Join(s.Path(), o.Scope, namesDir, "n")
		must(t, spoil(path))
		var held *NameHeldError
		err := s.ClaimName(o.Scope, "n", Claim{Owner: o.ID, Launch: proof.NewID()})
		if !errors.As(err, &held) || held.Reason == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWords(t *testing.T) {
	for _, s := range []string{"", ".", "..", ".x", "-x", "a/b", "a b", "a\n", "a\x00", "é", strings.Repeat("a", 101)} {
		if CheckName(s) == nil || CheckScope(s) == nil {
			t.Errorf("%q is let in", s)
		}
	}
	if CheckName("worker:1@host+x") != nil || CheckScope("a.b_c-1") != nil || CheckScope("a:b") == nil {
		t.Error("words")
	}
	s := testStore(t)
	if err := s.ClaimName("test", "../x", Claim{}); err == nil {
		t.Error("a name left its directory")
	}
	if _, err := s.NewOwner(OwnerRecord{ID: proof.NewID(), Scope: "../x"}); err == nil {
		t.Error("a scope left its directory")
	}
}

// A scope named like the directory of names would lie beside the owners.
func TestScopeCalledNames(t *testing.T) {
	s := testStore(t)
	rec := ownerRecord()
	rec.Scope = namesDir
	o, err := s.NewOwner(rec)
	must(t, err)
	defer o.Close()
	ids, odd, err := s.Owners(namesDir)
	if err != nil || len(ids) != 1 || len(odd) != 0 {
		t.Errorf("%v, %v, %v", ids, odd, err)
	}
}
