package custody_test

import (
	"os"
	"strings"
	"testing"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/host"
)

// Inside another launch the keeper of an inner one goes on bearing the outer
// one's mark, by which the outer one ends it.
func TestKeeperKeepsOuterMark(t *testing.T) {
	const outer = host.Brand(1<<62 | 1)
	takeOff, err := host.WearBrand(outer)
	must(t, err)
	defer takeOff()
	o, err := custody.Open(t.Context(), "test", &custody.Options{Dir: stateDir(t)})
	must(t, err)
	defer o.Close()
	c := o.Command("sleep", "20")
	c.Kept = true
	must(t, c.Start())
	if b := host.PeekBrand(c.Process.Pid); b == 0 || b == outer {
		t.Errorf("the leader's mark: %x", b)
	}
	found := false
	for pid, line := range kids(t) {
		if strings.HasPrefix(line, "custody-keeper") {
			found = true
			if b := host.PeekBrand(pid); b != outer {
				t.Errorf("the keeper's mark: %x, want %x", b, outer)
			}
		}
	}
	if b := host.PeekBrand(os.Getpid()); b != outer || !found {
		t.Errorf("our own mark: %x, keeper found: %v", b, found)
	}
	_, err = c.Launch().Stop(t.Context())
	must(t, err)
}
