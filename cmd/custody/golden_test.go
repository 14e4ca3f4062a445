package main

// What scripts rely on: the names and the shape of every JSON value. Each is
// kept as a file, which docs/cli.md shows as the example. A change here breaks
// somebody's program. To write the files anew: go test ./cmd/custody -update

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/proof"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files and docs/cli.md anew")

func id(t testing.TB, digit string) custody.ID {
	v, err := custody.ParseID(strings.Repeat(digit, 32))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// exampleLaunch has every field that a launch can have.
func exampleLaunch(t testing.TB) custody.LaunchInfo {
	evidence := []custody.Evidence{
		{Fact: proof.SameBoot, Source: "/proc/sys/kernel/random/boot_id", Holds: custody.Yes},
		{Fact: proof.Handle, Source: "name_to_handle_at", Holds: custody.Yes},
	}
	return custody.LaunchInfo{
		ID: id(t, "a"), Scope: "browsers", Name: "worker-1", State: "running", Level: custody.LevelLineage,
		OnOwnerDeath: custody.Kill, Owner: custody.OwnerInfo{ID: id(t, "b"), PID: 4700, Alive: true},
		PID: 4711, PGID: 4711, StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Command: []string{"firefox-esr", "-headless"}, Labels: map[string]string{"recipe": "42"}, Ports: []int{8000},
		Dirs: []string{"/tmp/custody-aaaa-PROFILE/PROFILE"},
		PIDs: []int{4711}, Members: []custody.Member{{PID: 4711, PPID: 4705, State: "S", Comm: "firefox-esr",
			Command: []string{"firefox-esr", "-headless"},
			Proof:   custody.Finding{Verdict: custody.Owned, Reason: "proven by handle", Evidence: evidence}}},
		KeeperPID: 4705, Verdict: custody.Owned, Reason: "1 proven members live",
		Suspects: []custody.Member{{PID: 4800, Comm: "helper", Command: []string{},
			Proof: custody.Finding{Verdict: custody.Unsure, Weak: true,
				Reason:   "carries the launch's cookie, which anyone can copy; no kernel fact ties it to the launch",
				Evidence: []custody.Evidence{{Fact: proof.Cookie, Source: "/proc/PID/environ", Holds: custody.Unknown}}}}},
	}
}

func exampleStop(t testing.TB) custody.StopResult {
	return custody.StopResult{ID: id(t, "a"), Name: "worker-1", Verdict: custody.Owned, Outcome: "incomplete",
		Reason:    "1 proven members live",
		Signalled: []int{4711}, Signals: []custody.Sent{{PID: 4711, Signal: "TERM", Via: "handle"}},
		Survivors: []custody.Survivor{{PID: 4712, Why: "still alive: state D, uninterruptible in nfs_wait"}},
		Freed:     []string{},
	}
}

func exampleSweep(t testing.TB) custody.SweepReport {
	gone := custody.StopResult{ID: id(t, "c"), Name: "worker-2", Verdict: custody.Gone, Outcome: "gone",
		Reason:    "no mechanism of the launch shows a live member",
		Signalled: []int{4720}, Signals: []custody.Sent{{PID: 4720, Signal: "TERM", Via: "group"}}, Survivors: []custody.Survivor{},
		Freed: []string{"/tmp/custody-cccc-PROFILE/PROFILE"}}
	return custody.SweepReport{Launches: []custody.StopResult{gone, exampleStop(t)}, LiveOwners: 1,
		SetAside: []custody.SetAside{{Path: "/run/custody/browsers/" + id(t, "b").String() + "/owner.json", Reason: "not JSON: unexpected end of JSON input"}}}
}

func exampleExplanation(t testing.TB) custody.Explanation {
	l := exampleLaunch(t)
	return custody.Explanation{PID: 4711, Verdict: custody.Owned, Launch: &l.ID, Name: l.Name, Role: custody.RoleLeader,
		Reason: "proven by handle", Evidence: l.Members[0].Proof.Evidence, WouldSignal: true, State: "S",
		Command: l.Command, Parent: 4705}
}

// exampleStatus is of a launch whose leader died and whose workers live.
func exampleStatus(t testing.TB) custody.Status {
	return custody.Status{ID: id(t, "a"), Scope: "start", Name: "llama", State: custody.StateRunning,
		Reason: "its leader has ended (signal KILL), 2 members live", Exit: &custody.Exit{Code: -1, Signal: "KILL"},
		PID: 4711, LeaderGone: true, PIDs: []int{4712, 4713}, KeeperPID: 4705, Level: custody.LevelLineage,
		Owner: custody.OwnerInfo{ID: id(t, "b"), PID: 4700, Alive: true},
		Log:   &custody.LogInfo{Path: "/home/me/.local/state/custody/start/logs/" + id(t, "a").String() + ".log"}}
}

func exampleDiagnosis() custody.Diagnosis {
	return custody.Diagnosis{System: "Linux 6.12.0", StateDir: "/home/me/.local/state/custody",
		Checks: []custody.Check{
			{Name: "process handles", Answer: custody.Yes, Detail: "pidfd_open works"},
			{Name: "durable handle", Answer: custody.No, Detail: "unsupported operation", Remedy: "Linux 6.14 opens a recorded process again after a crash"}},
		Levels: []custody.LevelCheck{
			{Level: custody.LevelLineage, Available: custody.Yes},
			{Level: custody.LevelCgroup, Available: custody.No, Missing: "no writable cgroup v2 directory", Remedy: "run where a cgroup v2 directory is writable or delegated"}},
	}
}

func examples(t testing.TB) map[string]any {
	l := exampleLaunch(t)
	return map[string]any{
		"ls":             []custody.LaunchInfo{l},
		"tree":           []scopeTree{{Scope: l.Scope, Owners: []ownerTree{{OwnerInfo: l.Owner, Launches: []custody.LaunchInfo{}}}}},
		"stop":           exampleStop(t),
		"sweep":          exampleSweep(t),
		"status":         exampleStatus(t),
		"wait":           custody.Exit{Code: 7},
		"explain":        exampleExplanation(t),
		"doctor":         exampleDiagnosis(),
		"version":        versionInfo{Version: "v1.0.0", Commit: "0123456789abcdef", Go: "go1.26", System: "Linux 6.12.0", Arch: "amd64"},
		"error":          jsonError{Error: `launch "web": no such launch; 'custody ls' shows what is owned`, Code: exitFailed, Kind: "not-found"},
		"error-setaside": jsonError{Error: (&setAsideError{exampleSweep(t).SetAside}).Error(), Code: exitIncomplete, SetAside: exampleSweep(t).SetAside},
		"demo": demo{OK: true, Owner: 4700, Launch: l.ID.String(), Level: l.Level, Members: []int{4711, 4712, 4713, 4714}, Escapee: 4714,
			Stranger: 4701, GoneAfterMS: 520, Explained: []custody.Explanation{}, Claims: []claim{{"the stranger, process 4701, lives", true}}},
	}
}

func TestJSONStays(t *testing.T) {
	for name, v := range examples(t) {
		t.Run(name, func(t *testing.T) {
			golden(t, filepath.Join("testdata", "json", name+".json"), indented(t, v))
		})
	}
}

// indented is what printJSON prints.
func indented(t *testing.T, v any) []byte {
	var b bytes.Buffer
	old := out
	defer func() { out = old }()
	out = &screen{w: &b}
	if err := printJSON(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// golden compares with a file, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-file +now); if it is meant, run go test ./cmd/custody -update:\n%s", path, d)
	}
}
