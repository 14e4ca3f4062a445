package custody_test

// Bad use of the command: a clear word, exit code 125, nothing run, nothing
// lost.

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
)

// binary builds the custody command, once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "custody-test-binary")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "custody")
	out, err := exec.Command("go", "build", "-o", path, "./cmd/custody").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

var built string // its directory, which TestMain removes

type ran struct {
	code        int
	out, errOut string
}

func cli(t *testing.T, env []string, args ...string) ran {
	t.Helper()
	path, err := binary()
	must(t, err)
	c := exec.Command(path, args...)
	c.Env = append(os.Environ(), env...)
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	err = c.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return ran{c.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func TestBadUse(t *testing.T) {
	ranFile := filepath.Join(t.TempDir(), "ran")
	touch := []string{"--", "touch", ranFile}
	good := stateDir(t)
	open := stateDir(t)
	must(t, os.Chmod(open, 0o777))
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(good, link))
	run := func(flags ...string) []string { return append(append([]string{"run"}, flags...), touch...) }
	for what, c := range map[string]struct {
		env  []string
		args []string
		code int
		want string
	}{
		"no command":          {nil, []string{"run", "--dir", good}, 125, "command"},
		"no command after --": {nil, []string{"run", "--dir", good, "--"}, 125, "command"},
		"bad phase":           {nil, run("--dir", good, "--phase", "TERM"), 125, "TERM:10s"},
		"unknown signal":      {nil, run("--dir", good, "--phase", "NOPE:1s"), 125, "NOPE"},
		"signal by number":    {nil, run("--dir", good, "--phase", "15:1s"), 125, "15"},
		"negative wait":       {nil, run("--dir", good, "--phase", "TERM:-1s"), 125, "phase"},
		"bad phase of stop":   {nil, []string{"stop", "--dir", good, "--phase", "x", "abcd"}, 125, "phase"},
		"unknown level":       {nil, run("--dir", good, "--require", "galaxy"), 125, "level"},
		"job on this system":  {nil, run("--dir", good, "--require", "job"), 125, "level"},
		"bad label":           {nil, run("--dir", good, "--label", "x"), 125, "label"},
		"bad name":            {nil, run("--dir", good, "--name", "../x"), 125, "name"},
		"bad scope":           {nil, run("--dir", good, "--scope", "a/b"), 125, "scope"},
		"bad temp-dir":        {nil, run("--dir", good, "--temp-dir", "../X"), 125, "temporary directory"},
		"own-dir /":           {nil, run("--dir", good, "--own-dir", "/"), 125, "own directory"},
		"own-dir absent":      {nil, run("--dir", good, "--own-dir", "/no/such"), 125, "/no/such"},
		"unknown flag":        {nil, run("--dir", good, "--nope"), 125, "nope"},
		"unknown command":     {nil, []string{"nope"}, 125, "nope"},
		"unknown id":          {nil, []string{"stop", "--dir", good, "0123456789abcdef0123456789abcdef"}, 125, "no such launch"},
		"unknown name":        {nil, []string{"stop", "--dir", good, "nobody"}, 125, "no such launch"},
		"explain unknown":     {nil, []string{"explain", "--dir", good, "nobody"}, 125, "no such launch"},
		"explain no process":  {nil, []string{"explain", "--dir", good, "4194303"}, 125, "4194303"},
		"open state, run":     {nil, run("--dir", open), 125, open},
		"open state, ls":      {nil, []string{"ls", "--dir", open}, 125, open},
		"open state, sweep":   {nil, []string{"sweep", "--dir", open}, 125, open},
		"open state, stop":    {nil, []string{"stop", "--dir", open, "nobody"}, 125, open},
		"file as state":       {nil, run("--dir", file), 125, file},
		"link as state":       {nil, run("--dir", link), 125, link},
		"state below a file":  {nil, run("--dir", file+"/x"), 125, file},
		"no handles, run":     {[]string{"CUSTODY_DEBUG_WITHOUT=pidfd"}, run("--dir", good), 125, "pidfd"},
		"not found":           {nil, []string{"run", "--dir", good, "--", "/no/such/program"}, 127, "/no/such/program"},
		"not found in PATH":   {nil, []string{"run", "--dir", good, "--", "no-such-program"}, 127, "no-such-program"},
		"not executable":      {nil, []string{"run", "--dir", good, "--", "/etc/hostname"}, 126, "/etc/hostname"},
		"no such directory":   {nil, run("--dir", good, "--cwd", "/no/such/dir"), 125, "/no/such/dir"},
		"cwd is a file":       {nil, run("--dir", good, "--cwd", "/etc/hostname"), 125, "not a directory"},
	} {
		t.Run(what, func(t *testing.T) {
			r := cli(t, c.env, c.args...)
			if r.code != c.code || !strings.Contains(r.errOut, c.want) {
				t.Errorf("exit %d, want %d with %q\n%s", r.code, c.code, c.want, r.errOut)
			}
			if n := strings.Count(strings.TrimSpace(r.errOut), "\n"); n > 5 || strings.Contains(r.errOut, "goroutine") {
				t.Errorf("not a clear word:\n%s", r.errOut)
			}
		})
	}
	if _, err := os.Stat(ranFile); err == nil {
		t.Error("user code ran")
	}
	if left, _ := filepath.Glob(filepath.Join(good, "*", "*", "*.json")); len(left) > 0 {
		t.Errorf("records left: %v", left)
	}
}

// orphaned makes a tree whose owner was killed and that nothing watches.
func orphaned(t *testing.T, dir string) (pids string) {
	t.Helper()
	adopt(t)
	pids = filepath.Join(t.TempDir(), "pids")
	t.Cleanup(func() {
		endTree(t, pids)
		until(t, "orphans are collected", func() bool { return len(orphans(t)) == 0 })
	})
	ord := order{Dir: dir, Alone: true, Pids: pids, Name: "n", End: "kill",
		Command: tree.Command("leader-dies", "-leader", "stay", "-n", "2", "-ignore", "TERM", "-pids", pids, "-life", "60s")}
	expectKilled(t, "owner", play(t, "owner", ord).Run())
	return pids
}

// A kernel that can't tell processes apart: nothing is signalled, no record is
// lost, and the next look with handles finds everything.
func TestWithoutHandlesNothingIsLost(t *testing.T) {
	dir := stateDir(t)
	pids := orphaned(t, dir)
	without := []string{"CUSTODY_DEBUG_WITHOUT=pidfd"}
	for _, args := range [][]string{{"stop", "n"}, {"sweep"}, {"sweep", "--dry-run"}, {"ls", "--json"}} {
		r := cli(t, without, append(args, "--dir", dir)...)
		if args[0] != "ls" && (r.code == 0 || r.out+r.errOut == "") {
			t.Errorf("%v: exit %d\n%s%s", args, r.code, r.out, r.errOut)
		}
		if len(alive(t, pids)) != 3 {
			t.Fatalf("%v: the tree was touched", args)
		}
		if recs, _ := filepath.Glob(filepath.Join(dir, "test", "*", "????????????????????????????????.json")); len(recs) != 1 {
			t.Fatalf("%v: records %v", args, recs)
		}
	}
	if r := cli(t, nil, "sweep", "--dir", dir); r.code != 0 {
		t.Errorf("sweep: exit %d\n%s", r.code, r.errOut)
	}
	if left := alive(t, pids); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Bad records beside a good one: it is handled, they stay, the exit code tells.
func TestSweepTellsOfBadRecords(t *testing.T) {
	dir := stateDir(t)
	pids := orphaned(t, dir)
	recs, err := filepath.Glob(filepath.Join(dir, "test", "*", "????????????????????????????????.json"))
	if err != nil || len(recs) != 1 {
		t.Fatal(recs, err)
	}
	bad := filepath.Join(filepath.Dir(recs[0]), strings.Repeat("ab", 16)+".json")
	must(t, os.WriteFile(bad, []byte(`{"version":1,"leader":{"pid":-1}`), 0o600))
	r := cli(t, nil, "sweep", "--json", "--dir", dir)
	var rep custody.SweepReport
	if err := json.Unmarshal([]byte(r.out), &rep); err != nil {
		t.Fatalf("%v\n%s", err, r.out)
	}
	if r.code == 0 || len(rep.SetAside) != 1 || rep.SetAside[0].Path != bad || len(rep.Launches) != 1 || rep.Launches[0].Outcome != "gone" {
		t.Errorf("exit %d: %+v\n%s", r.code, rep, r.errOut)
	}
	if left := alive(t, pids); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(bad); err != nil {
		t.Error(err)
	}
}
