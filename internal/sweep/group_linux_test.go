package sweep

import (
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/tree"
)

// The leader is dead and collected, its group lives, and nobody is left who
// knew it: the recorded handle reaches exactly that group.
func TestGroupOfACollectedLeader(t *testing.T) {
	w := newWorld(t)
	d := w.owner(nil)
	bystander := w.victim()
	pids := filepath.Join(t.TempDir(), "pids")
	argv := tree.Command("leader-dies", "-leader", "stay", "-n", "3", "-pids", pids, "-life", "60s")
	c := exec.Command(argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	procs, err := tree.Wait(ctx, pids, 4)
	must(t, err)
	p, err := host.Open(c.Process.Pid)
	must(t, err)
	id, err := p.Identity()
	must(t, err)
	p.Close()
	var members []*host.Process
	for _, m := range procs {
		if m.Role == "member" {
			q, err := host.Open(m.PID)
			must(t, err)
			defer q.Close()
			members = append(members, q)
		}
	}
	r := w.record(d, &victim{id: id}, func(r *ledger.Record) { r.Leader = &id })
	must(t, c.Process.Kill())
	c.Wait()
	if _, err := host.Open(id.PID); err == nil {
		t.Fatal("the leader's number still opens")
	}

	rep := w.sweep(Request{})
	if len(rep.Results) != 1 || rep.Results[0].Outcome != "gone" || rep.Results[0].ID != r.ID {
		t.Fatalf("%+v", rep)
	}
	sent := rep.Results[0].Sent
	if len(sent) != len(members) {
		t.Errorf("%d signals for %d members: %+v", len(sent), len(members), sent)
	}
	for _, s := range sent {
		if s.Via != "group" || s.Signal != syscall.SIGTERM || s.Err != nil {
			t.Errorf("%+v", s)
		}
	}
	for _, m := range members {
		if gone, err := m.Exited(); !gone || err != nil {
			t.Errorf("member %d lives: %v", m.PID(), err)
		}
	}
	if bystander.signals() != "" || !bystander.lives() {
		t.Errorf("the bystander got %q", bystander.signals())
	}
	// Whoever adopted the members collects them, and with that the number goes.
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		q, err := host.Reopen(id)
		if err != nil {
			break
		}
		q.Close()
		if time.Now().After(end) {
			t.Fatal("the handle of a group that is gone still opens")
		}
	}
}
