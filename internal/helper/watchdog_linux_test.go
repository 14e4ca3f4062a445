package helper

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// A watchdog that does not come up in time is ended: a late one that nobody
// knows of would sweep and hold on to what it was handed.
func TestLateWatchdogIsEnded(t *testing.T) {
	old := comeUp
	comeUp = time.Second
	t.Cleanup(func() { comeUp = old })
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	script := filepath.Join(t.TempDir(), "slow")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho $$ > "+pidFile+"\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	store, err := ledger.OpenStore(dir, ledger.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	self, err := host.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	pid := 0
	for ; pid == 0; comeUp *= 4 { // a busy machine gives the script longer to begin
		w, err := Binary{path: script}.StartWatchdog(store, &ledger.Owner{Scope: "test", ID: proof.NewID()}, self, false)
		if err == nil || !strings.Contains(err.Error(), "come up") {
			t.Fatalf("%v, %v", w, err)
		}
		b, err := os.ReadFile(pidFile)
		if pid, _ = strconv.Atoi(strings.TrimSpace(string(b))); pid == 0 && comeUp > time.Minute {
			t.Fatalf("the script never began: %q, %v", b, err)
		}
	}
	if p, err := host.Open(pid); err == nil {
		p.Close()
		t.Errorf("process %d is left", pid)
	}
}
