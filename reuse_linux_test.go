package custody_test

// The recorded pid, which is the recorded group and session too, belongs to a
// stranger now. Forced in a PID namespace of its own.

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/tree"
	"github.com/custody-project/custody/proof"
)

func init() { roles["reuse"] = playReuse }

// reuseReport is what the inside of the namespace saw.
type reuseReport struct {
	Old, New int
	Dry      custody.SweepReport
	Sweep    custody.SweepReport
	Explain  []custody.Explanation
	Signals  string // that the stranger got
	State    byte   // of the stranger
	Left     []string
}

func TestPidReused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may say which pid comes next")
	}
	for _, without := range []string{"", "handle", "handle,inode", "handle,inode,info"} {
		t.Run("without "+without, func(t *testing.T) {
			t.Parallel()
			dir := stateDir(t)
			exe, err := os.Executable()
			must(t, err)
			b, err := json.Marshal(order{Dir: dir})
			must(t, err)
			argv := tree.Command("wrap-pid1", "-life", "60s", "--", exe)
			c := exec.Command(argv[0], argv[1:]...)
			c.Env = append(os.Environ(), roleVar+"=reuse", roleVar+"_ORDER="+string(b), "CUSTODY_DEBUG_WITHOUT="+without)
			c.Stderr = os.Stderr
			out, err := c.Output()
			must(t, err)
			var r reuseReport
			must(t, json.Unmarshal(out, &r))
			if r.Old == 0 || r.Old != r.New {
				t.Fatalf("the pid was not given again: %+v", r)
			}
			if r.Signals != "" || r.State == 'Z' || r.State == 0 {
				t.Errorf("the stranger got %q, state %c", r.Signals, r.State)
			}
			if len(r.Dry.Launches) != 1 || r.Dry.Launches[0].Outcome != "would-free" {
				t.Errorf("dry run: %+v", r.Dry)
			}
			if len(r.Sweep.Launches) != 1 || len(r.Sweep.SetAside) != 0 {
				t.Fatalf("%+v", r.Sweep)
			}
			l := r.Sweep.Launches[0]
			if l.Outcome != "gone" || l.Verdict != custody.Gone || !strings.Contains(l.Reason, "pid reused") || len(l.Signalled) != 0 {
				t.Errorf("%+v", l)
			}
			if len(r.Explain) != 1 || r.Explain[0].Verdict != custody.Foreign || r.Explain[0].WouldSignal || !strings.Contains(r.Explain[0].Reason, "pid reused") {
				t.Errorf("explain: %+v", r.Explain)
			}
			if len(r.Left) > 0 {
				t.Errorf("left: %v", r.Left)
			}
		})
	}
}

// playReuse is PID 1 of the namespace.
func playReuse(o order) {
	check := func(err error) {
		if err != nil {
			fatal(err)
		}
	}
	start := func(stdout *os.File, argv ...string) *exec.Cmd {
		c := exec.Command(argv[0], argv[1:]...)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Stdout, c.Stderr = stdout, os.Stderr
		check(c.Start())
		go c.Wait()
		return c
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	file := func(name string) string { return filepath.Join(o.Dir, "."+name) }

	victim := start(nil, tree.Command("sleep", "-pids", file("victim"), "-life", "50s")...)
	_, err := tree.Wait(ctx, file("victim"), 1)
	check(err)
	p, err := host.Open(victim.Process.Pid)
	check(err)
	id, err := p.Identity()
	check(err)
	here, err := host.Here()
	check(err)
	store, err := ledger.OpenStore(o.Dir, ledger.Options{})
	check(err)
	owner, err := store.NewOwner(ledger.OwnerRecord{ID: proof.NewID(), Scope: "test", Host: here.Host, Boot: here.Boot,
		PIDNS: here.PIDNS, Process: proof.Identity{PID: 1<<22 - 1, Start: 1}})
	check(err)
	plan := []ledger.Phase{{Signal: "TERM", Wait: time.Second}, {Signal: "KILL", Wait: time.Second}}
	check(owner.Write(&ledger.Record{ID: proof.NewID(), Scope: "test", Owner: owner.ID, Name: "n", State: ledger.Running,
		OnOwnerDeath: ledger.Kill, Phases: plan, DeathPhases: plan, Level: "group", Host: here.Host, Boot: here.Boot,
		PIDNS: here.PIDNS, UID: os.Geteuid(), IntentTicks: id.Start - 1, Leader: &id, Command: []string{"sleep"}}))
	check(owner.Close())

	facts, err := os.Create(file("facts"))
	check(err)
	start(facts, tree.Command("reuse", "-victim", fmt.Sprint(id.PID), "-log", file("signals"), "-pids", file("reuse"), "-life", "50s")...)
	procs, err := tree.Wait(ctx, file("reuse"), 2)
	for err == nil && procs[len(procs)-1].Role != "leader" {
		time.Sleep(5 * time.Millisecond)
		procs, err = tree.ReadPids(file("reuse"))
	}
	check(err)

	r := reuseReport{Old: id.PID, New: procs[len(procs)-2].PID}
	r.Dry, err = custody.Sweep(ctx, custody.SweepOptions{Dir: o.Dir, DryRun: true})
	check(err)
	r.Explain, err = custody.Explain(ctx, fmt.Sprint(id.PID), custody.ListOptions{Dir: o.Dir})
	check(err)
	r.Sweep, err = custody.Sweep(ctx, custody.SweepOptions{Dir: o.Dir})
	check(err)
	b, _ := os.ReadFile(file("signals"))
	r.Signals = string(b)
	if q, err := host.Open(r.New); err == nil {
		if row, err := q.Stat(); err == nil {
			r.State = row.State
		}
	}
	left, _ := filepath.Glob(filepath.Join(o.Dir, "test", "*", "*.json"))
	r.Left = left
	check(json.NewEncoder(os.Stdout).Encode(r))
}
