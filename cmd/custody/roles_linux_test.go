package main

// Custody's own processes are told apart from members and strangers.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
)

func explainOne(t *testing.T, dir string, pid int) custody.Explanation {
	t.Helper()
	xs, err := custody.Explain(context.Background(), strconv.Itoa(pid), custody.ListOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return xs[0]
}

func TestRoles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	o, err := custody.Open(context.Background(), "roles", &custody.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()

	// An owner is one before it owns anything.
	x := explainOne(t, dir, os.Getpid())
	if x.Role != custody.RoleOwner || x.Verdict != custody.Foreign || x.WouldSignal || !strings.Contains(x.Reason, "owner of scope roles") {
		t.Errorf("ourselves: %+v", x)
	}

	// A direct launch has a watchdog beside its owner.
	argv := tree.Command("sleep", "-life", "60s")
	cmd := o.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if x := explainOne(t, dir, cmd.Process.Pid); x.Role != custody.RoleLeader || !x.WouldSignal {
		t.Errorf("leader: %+v", x)
	}
	watchdogs := 0
	for _, pid := range childrenOf(t, os.Getpid()) {
		if x, err := custody.Explain(context.Background(), strconv.Itoa(pid), custody.ListOptions{Dir: dir}); err == nil && x[0].Role == custody.RoleWatchdog {
			watchdogs++
			if x[0].Verdict != custody.Foreign || x[0].WouldSignal || x[0].Launch != nil {
				t.Errorf("watchdog: %+v", x[0])
			}
		}
	}
	if watchdogs != 1 {
		t.Errorf("%d watchdogs, want 1", watchdogs)
	}

	// An owner inside a launch is a member of that launch first.
	inner := o.Command(asCustody(t, dir, "").Path, append([]string{"run", "--name", "inner", "--"}, argv...)...)
	inner.Env = asCustody(t, dir, "").Env
	if err := inner.Start(); err != nil {
		t.Fatal(err)
	}
	eventuallyT(t, "the inner owner", func() bool {
		x = explainOne(t, dir, inner.Process.Pid)
		return x.Role == custody.RoleOwner
	})
	if x.Verdict != custody.Owned || !x.WouldSignal || x.Launch == nil || *x.Launch != inner.Launch().ID() {
		t.Errorf("inner owner: %+v", x)
	}

	// What could not be believed is mentioned where it could matter.
	bad := filepath.Join(dir, "roles", o.ID().String(), strings.Repeat("1", 32)+".json")
	if err := os.WriteFile(bad, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if x := explainOne(t, dir, os.Getppid()); x.Verdict != custody.Foreign || !strings.Contains(x.Reason, "could not be believed") {
		t.Errorf("stranger beside a bad record: %+v", x)
	}
	os.Remove(bad)
}

func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	var kids []int
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lists {
		b, err := os.ReadFile(l)
		if err != nil {
			continue // the thread ended
		}
		for _, f := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				kids = append(kids, n)
			}
		}
	}
	return kids
}

func eventuallyT(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
