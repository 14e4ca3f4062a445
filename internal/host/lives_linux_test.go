package host

import (
	"testing"

	"github.com/custody-project/custody/proof"
)

// Lives says yes for the recorded process alone, no once it has ended, though
// nobody collected it, and nothing of what it can't tell.
func TestLives(t *testing.T) {
	c, p := sleeper(t, "exec sleep 20")
	id, err := p.Identity()
	must(t, err)
	if got := Lives(id); got != proof.Yes || !p.Is(id) {
		t.Errorf("alive: %v, is it: %v", got, p.Is(id))
	}
	for _, without := range []string{"", "handle"} {
		t.Setenv("CUSTODY_DEBUG_WITHOUT", without)
		other := id
		other.Inode, other.Start, other.FileHandle = id.Inode+1, id.Start+1, ""
		if got := Lives(other); got != proof.No || p.Is(other) {
			t.Errorf("without %q, another one's record: %v, is it: %v", without, got, p.Is(other))
		}
		other.Inode, other.Start, other.ExeDev = 0, id.Start, id.ExeDev+1
		if p.Is(other) {
			t.Errorf("without %q: an executable of another device is the same", without)
		}
	}
	if got := Lives(proof.Identity{PID: -1}); got == proof.Yes {
		t.Errorf("no pid: %v", got)
	}
	c.Process.Kill()
	must(t, p.WaitExit(t.Context()))
	if got := Lives(id); got != proof.No {
		t.Errorf("ended, not collected: %v", got)
	}
	c.Wait()
	if got := Lives(id); got != proof.No {
		t.Errorf("collected: %v", got)
	}
}
