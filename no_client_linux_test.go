package custody_test

// A program that can't speak to container engines meets the record of a
// container: it says so, and leaves both alone.

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/ledger"
)

func TestWithoutEngineClient(t *testing.T) {
	dir := stateDir(t)
	// A survivor whose record is made a container's here.
	o := openOwner(t, custody.Options{Dir: dir})
	c := o.Command("sleep", "60")
	c.Kept, c.OnOwnerDeath = true, custody.Survive
	must(t, c.Start())
	must(t, o.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", c.Launch().ID().String()+".json"))
	must(t, err)
	if len(files) != 1 {
		t.Fatalf("records: %v", files)
	}
	b, err := os.ReadFile(files[0])
	must(t, err)
	real, err := ledger.DecodeRecord(b)
	must(t, err)
	t.Cleanup(func() { endLeader(t, dir, real.ID.String(), files[0], b) })
	rec := *real
	rec.Leader, rec.Keeper, rec.Cgroup, rec.Members, rec.Level = nil, nil, nil, nil, ledger.ContainerLevel
	rec.Container = &ledger.Container{Engine: "E", Endpoint: "unix:///nowhere/s", ID: strings.Repeat("0", 64), Name: "n", Image: "i",
		Label: ledger.LaunchLabel + "=" + rec.ID.String()}
	text, err := ledger.EncodeRecord(&rec)
	must(t, err)
	must(t, os.WriteFile(files[0], text, 0o600))

	const says = "no engine client; run 'custody sweep'"
	rep, err := custody.Sweep(context.Background(), custody.SweepOptions{Dir: dir})
	must(t, err)
	if len(rep.Launches) != 1 || rep.Launches[0].Outcome != "incomplete" || !strings.Contains(rep.Launches[0].Reason, says) {
		t.Errorf("sweep: %+v", rep)
	}
	res, err := custody.Stop(context.Background(), rec.ID.String(), custody.StopOptions{Dir: dir})
	if !errors.Is(err, custody.ErrIncomplete) || res.Verdict != custody.Unsure || !strings.Contains(res.Reason, says) {
		t.Errorf("stop: %+v, %v", res, err)
	}
	st, err := custody.StatusOf(context.Background(), rec.ID.String(), custody.ListOptions{Dir: dir})
	if err != nil || st.State != custody.StateUnsure || !strings.Contains(st.Reason, says) {
		t.Errorf("status: %+v, %v", st, err)
	}
	if _, err := custody.Wait(context.Background(), rec.ID.String(), custody.ListOptions{Dir: dir}); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("wait: %v", err)
	}
	if now, err := os.ReadFile(files[0]); err != nil || string(now) != string(text) {
		t.Errorf("the record was changed: %v, %s", err, now)
	}
}

// endLeader puts the true record back, and ends what it names.
func endLeader(t *testing.T, dir, id, file string, record []byte) {
	must(t, os.WriteFile(file, record, 0o600))
	_, err := custody.Stop(context.Background(), id, custody.StopOptions{Dir: dir})
	must(t, err)
}

// Nobody pays for the client but who imports package container.
func TestClientIsPaidForByItsImporters(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	must(t, err)
	for dep := range strings.Lines(string(out)) {
		if strings.Contains(dep, "moby") || strings.Contains(dep, "opentelemetry") {
			t.Errorf("the library needs %s", strings.TrimSpace(dep))
		}
	}
}
