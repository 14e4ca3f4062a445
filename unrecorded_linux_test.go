package custody_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

// A start in a PID namespace whose leader can't be written down fails; its
// init waits for nobody.
func TestNamespaceUnrecorded(t *testing.T) {
	t.Setenv("CUSTODY_TEST_PAUSE", "keeper/keeper-before-start=1s")
	state := stateDir(t)
	o, err := custody.Open(t.Context(), "test", &custody.Options{Dir: state})
	must(t, err)
	ran := filepath.Join(t.TempDir(), "ran")
	c := o.Command("touch", ran)
	c.Kept, c.Require = true, custody.LevelPIDNS
	started := make(chan error, 1)
	go func() { started <- c.Start() }()
	until(t, "the keeper has noted itself", func() bool {
		found, _ := filepath.Glob(filepath.Join(state, "test", "*", "*.json"))
		for _, f := range found {
			b, _ := os.ReadFile(f)
			if filepath.Base(f) != "owner.json" && strings.Contains(string(b), `"keeper"`) {
				must(t, os.Remove(f))
				return true
			}
		}
		return false
	})
	select {
	case err := <-started:
		if !errors.Is(err, custody.ErrStoppedEarly) {
			t.Errorf("start: %v", err)
		}
	case <-time.After(20 * time.Second):
		for pid, line := range kids(t) {
			if strings.HasPrefix(line, "custody-keeper") {
				p, _ := os.FindProcess(pid) // our child, not waited for yet
				p.Kill()
			}
		}
		<-started
		t.Error("Start hangs")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran, and no record named it")
	}
	must(t, o.Close())
}
