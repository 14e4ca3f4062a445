package helper

import (
	"os/exec"
	"testing"

	"github.com/custody-project/custody/internal/host"
)

// The moment of the owner's death is asked for only by who has heard of it: a
// keeper may be ending the tree for another reason while its owner dies. (What
// breaks this shows under the race detector.)
func TestDeathIsReadAfterIt(t *testing.T) {
	c := exec.Command("sleep", "20")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	owner, err := host.Open(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{owner: owner, ownerDead: make(chan struct{}), severed: make(chan struct{})}
	go k.watchOwner()
	c.Process.Kill()
	if n := k.deathTicks(false); n != 0 {
		t.Errorf("before it was told: %d", n)
	}
	<-k.ownerDead
	if k.deathTicks(true) == 0 {
		t.Error("no moment of death")
	}
}
