package stop

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// shell starts a shell script as the leader of a session, and returns its tree
// once n processes are in its group. Whatever it starts ends by itself.
func shell(t *testing.T, n int, script string) (*contain.Tree, *exec.Cmd) {
	t.Helper()
	c := exec.Command("sh", "-c", script)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // unreaped till now: the number is its own
		c.Wait()
	})
	here, err := host.Here()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		table, err := host.ReadTable()
		if err != nil {
			t.Fatal(err)
		}
		in := 0
		for _, r := range table.Rows {
			// Those that became what they are to be.
			if r.SID == c.Process.Pid && (r.PID == c.Process.Pid || r.Comm == "sleep") || r.PPID == c.Process.Pid && r.SID == r.PID {
				in++
			}
		}
		if in == n {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d processes, want %d", in, n)
		}
	}
	p, err := host.Open(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	id, err := p.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if id.FileHandle == "" {
		t.Skip("the kernel is too old for durable handles (6.14): there is no rush without them")
	}
	return contain.Of(&ledger.Record{
		ID: proof.NewID(), State: ledger.Running, Leader: &id, UID: id.UID,
		Host: here.Host, Boot: here.Boot, PIDNS: here.PIDNS,
	}, here, nil), c
}

func TestRushKillsTheGroupAndNamesItsMembers(t *testing.T) {
	tree, c := shell(t, 3, "sleep 60 & sleep 60 & wait")
	rep := Run(context.Background(), tree, []Phase{{syscall.SIGKILL, 10 * time.Second}}, Options{})
	if rep.Outcome != Gone {
		t.Fatalf("outcome %s (%s), want gone; survivors %v", rep.Outcome, rep.Reason, rep.Survivors)
	}
	named := map[int]bool{}
	for _, s := range rep.Sent {
		if s.Via == "group" && s.Finding.MaySignal() {
			named[s.PID] = true
		}
	}
	if len(named) != 3 || !named[c.Process.Pid] {
		t.Errorf("signalled by group: %v, want the leader %d and two more", named, c.Process.Pid)
	}
}

// What is held to the launch only by its parent must be looked at before its
// parent is killed.
func TestNoRushPastAnEscapeeStillBelowTheGroup(t *testing.T) {
	tree, _ := shell(t, 2, "setsid sleep 60 & wait")
	if c := tree.Compact(); c != nil {
		c.Leader.Close()
		t.Fatal("a tree with a member outside its group passes for a compact one")
	}
	rep := Run(context.Background(), tree, []Phase{{syscall.SIGKILL, 10 * time.Second}}, Options{})
	if rep.Outcome != Gone || len(rep.Sent) < 2 {
		t.Fatalf("outcome %s (%s), %d signals: want gone, and the escapee among the signalled", rep.Outcome, rep.Reason, len(rep.Sent))
	}
	for _, s := range rep.Sent {
		row, err := host.Open(s.PID)
		if err == nil {
			if gone, _ := row.Exited(); !gone {
				t.Errorf("process %d lives on", s.PID)
			}
			row.Close()
		}
	}
}

// Neither ourselves nor an ancestor is ever signalled, in a group as little as
// alone.
func TestNoRushOnAGroupWeAreIn(t *testing.T) {
	tree, c := shell(t, 2, "sleep 60 & wait")
	compact := tree.Compact()
	if compact == nil {
		t.Fatal("the group does not pass for compact")
	}
	compact.Leader.Close()
	for _, m := range compact.Members {
		r := &run{tree: tree, rep: &Report{}, ours: map[int]bool{m.Row.PID: true}}
		if r.rush(syscall.SIGKILL, func() { t.Error("a phase was begun") }) || len(r.rep.Sent) > 0 {
			t.Errorf("the group of %d, an ancestor of ours, was signalled", m.Row.PID)
		}
	}
	if err := c.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the leader: %v", err)
	}
}

// Any other signal sent twice does harm, so it is never sent ahead.
func TestNoRushBelowKill(t *testing.T) {
	tree, _ := shell(t, 2, "sleep 60 & wait")
	r := &run{tree: tree, rep: &Report{}, ours: map[int]bool{}}
	if r.rush(syscall.SIGTERM, func() {}) {
		t.Error("TERM was sent before the look")
	}
}
