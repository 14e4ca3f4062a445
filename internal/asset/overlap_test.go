package asset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// What is freed with one launch must not take another's along: a directory
// inside, above or across another one in custody is refused.
func TestOverlapsAreRefused(t *testing.T) {
	base, state := t.TempDir(), t.TempDir()
	held, other := filepath.Join(base, "held"), filepath.Join(base, "other")
	for _, d := range []string{filepath.Join(held, "sub", "deep"), other, filepath.Join(state, "scope", "owner")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	first := proof.NewID()
	a, err := OwnDir(held, first, state)
	if err != nil {
		t.Fatal(err)
	}
	if err := Make(&a); err != nil {
		t.Fatal(err)
	}
	temp, err := TempDir(other, first, "T")
	if err != nil {
		t.Fatal(err)
	}
	if err := Make(&temp); err != nil {
		t.Fatal(err)
	}
	for what, dir := range map[string]string{
		"the same": held, "inside": filepath.Join(held, "sub"), "deep inside": filepath.Join(held, "sub", "deep"),
		"above": base, "above a temporary one": other, "inside a temporary one": Inside(temp),
		"the state directory": state, "a scope": filepath.Join(state, "scope"), "an owner": filepath.Join(state, "scope", "owner"),
	} {
		if got, err := OwnDir(dir, proof.NewID(), state); err == nil {
			t.Errorf("%s: %+v was taken", what, got)
		}
	}
	if _, err := Free(a, first); err != nil {
		t.Error(err)
	}
	if _, err := OwnDir(other, proof.NewID(), state); err == nil || temp.Kind != ledger.TempDir {
		t.Errorf("above a temporary one that is still held: %v", err)
	}
}
