package main

// The command line is tested by scripts: what a user types, what comes back on
// which stream, and the exit status. The test binary plays custody, custody's
// helpers and the tree programs.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	custody.ServeHelper()
	tree.Main()
	testscript.Main(m, map[string]func(){
		"custody":  main,
		"treeprog": func() { fmt.Fprintln(os.Stderr, "treeprog: want tree:NAME"); os.Exit(2) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			dir := filepath.Join(e.WorkDir, "state")
			e.Setenv("CUSTODY_DIR", dir)
			e.Setenv("LANG", "C.UTF-8")
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				return err
			}
			e.Setenv("PORT", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
			l.Close()
			e.Setenv("TREE_PIDS", filepath.Join(e.WorkDir, "pids"))
			e.Defer(func() { endAll(dir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"started": started, "orphan": orphan, "code": code, "json": jsonPath, "fields": fields, "zombie": zombie,
			"stranger": stranger, "descriptors": descriptors,
		},
		RequireExplicitExec: true,
	})
}

// endAll ends what a failed script left behind.
func endAll(dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	l, err := custody.List(ctx, custody.ListOptions{Dir: dir})
	if err != nil {
		return
	}
	for _, x := range l.Launches {
		custody.Stop(ctx, x.ID.String(), custody.StopOptions{Dir: dir,
			Phases: []custody.Phase{{Signal: syscall.SIGKILL, Wait: 5 * time.Second}}})
	}
}

// eventually polls until f is true.
func eventually(ts *testscript.TestScript, what string, f func() bool) {
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("%s: not within 30 s", what)
		}
	}
}

// started NAME MEMBERS waits for a running launch, and sets ID, PID, KEEPER,
// OWNER, and M0, M1, … for the members in the order of their pids.
func started(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	var found custody.LaunchInfo
	eventually(ts, strings.Join(args, " "), func() bool {
		l, err := custody.List(context.Background(), custody.ListOptions{Dir: ts.Getenv("CUSTODY_DIR")})
		ts.Check(err)
		for _, x := range l.Launches {
			if x.Name == args[0] && x.State == "running" && len(x.Members) == want && announced(ts, x.PID) {
				found = x
				return true
			}
		}
		return false
	})
	ts.Setenv("ID", found.ID.String())
	ts.Setenv("SHORT", found.ID.Short())
	ts.Setenv("PID", strconv.Itoa(found.PID))
	ts.Setenv("KEEPER", strconv.Itoa(found.KeeperPID))
	ts.Setenv("OWNER", strconv.Itoa(found.Owner.PID))
	for i, m := range found.Members {
		ts.Setenv(fmt.Sprintf("M%d", i), strconv.Itoa(m.PID))
	}
}

// announced reports whether the leader of a tree program says that its tree
// has taken its shape.
func announced(ts *testscript.TestScript, pid int) bool {
	procs, _ := tree.ReadPids(ts.Getenv("TREE_PIDS")) // missing, or half a line: not yet
	return slices.ContainsFunc(procs, func(p tree.Proc) bool { return p.Role == "leader" && p.PID == pid })
}

// orphan kills owner and keeper of the started launch at once, so that only
// the record is left. Both are children of this test, by its own record.
func orphan(ts *testscript.TestScript, _ bool, _ []string) {
	keeper, err := strconv.Atoi(ts.Getenv("KEEPER"))
	ts.Check(err)
	owner, err := strconv.Atoi(ts.Getenv("OWNER"))
	ts.Check(err)
	k, err := os.FindProcess(keeper)
	ts.Check(err)
	o, err := os.FindProcess(owner)
	ts.Check(err)
	ts.Check(k.Signal(syscall.SIGSTOP))
	ts.Check(o.Kill())
	ts.Check(k.Kill())
	eventually(ts, "owner and keeper gone", func() bool {
		return ended(ts, ts.Getenv("OWNER")) && ended(ts, ts.Getenv("KEEPER"))
	})
}

// ended reports whether a process is gone, collected or not.
func ended(ts *testscript.TestScript, pid string) bool {
	xs, err := custody.Explain(context.Background(), pid, custody.ListOptions{Dir: ts.Getenv("CUSTODY_DIR")})
	if errors.Is(err, os.ErrProcessDone) {
		return true
	}
	ts.Check(err)
	return xs[0].Verdict == custody.Gone
}

// code N COMMAND… runs a command and wants exactly this exit status.
func code(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		ee, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = ee.ExitCode()
	}
	if args[0] != strconv.Itoa(got) {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// json STREAM PATH VALUE wants a value at a path such as 0.owner.pid.
func jsonPath(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	got := pick(ts, v, args[1])
	text, ok := got.(string)
	if !ok {
		b, err := json.Marshal(got)
		ts.Check(err)
		text = string(b)
	}
	if (text == args[2]) == neg {
		ts.Fatalf("%s is %s", args[1], text)
	}
}

func pick(ts *testscript.TestScript, v any, path string) any {
	for step := range strings.SplitSeq(path, ".") {
		if step == "" {
			continue // the value itself
		}
		switch x := v.(type) {
		case map[string]any:
			y, ok := x[step]
			if !ok {
				ts.Fatalf("no %s in %s", step, path)
			}
			v = y
		case []any:
			if step == "len" {
				return float64(len(x))
			}
			i, err := strconv.Atoi(step)
			ts.Check(err)
			if i >= len(x) {
				ts.Fatalf("%s: only %d", path, len(x))
			}
			v = x[i]
		default:
			ts.Fatalf("%s: nothing below %v", path, v)
		}
	}
	return v
}

// fields STREAM PATH NAME… wants at least these names in an object.
func fields(ts *testscript.TestScript, _ bool, args []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	obj, ok := pick(ts, v, args[1]).(map[string]any)
	if !ok {
		ts.Fatalf("%s: no object", args[1])
	}
	var have []string
	for k := range obj {
		have = append(have, k)
	}
	sort.Strings(have)
	for _, name := range args[2:] {
		if !slices.Contains(have, name) {
			ts.Fatalf("no field %s, have %v", name, have)
		}
	}
}

// zombie makes a dead child that this test collects only at its end, and sets
// ZOMBIE and PARENT.
func zombie(ts *testscript.TestScript, _ bool, _ []string) {
	c := exec.Command("true")
	ts.Check(c.Start())
	ts.Defer(func() { c.Wait() })
	eventually(ts, "zombie", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		ts.Check(err)
		return strings.Contains(string(b), ") Z ")
	})
	ts.Setenv("ZOMBIE", strconv.Itoa(c.Process.Pid))
	ts.Setenv("PARENT", strconv.Itoa(os.Getpid()))
}

// stranger starts a process that custody knows nothing of, and sets STRANGER.
func stranger(ts *testscript.TestScript, _ bool, args []string) {
	argv := tree.Command("sleep", "-life", "60s")
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = append(os.Environ(), args...)
	ts.Check(c.Start())
	ts.Defer(func() { c.Process.Kill(); c.Wait() })
	ts.Setenv("STRANGER", strconv.Itoa(c.Process.Pid))
}

// descriptors NAME wants the leader of a launch to have the descriptors that a
// plain child of this test has with empty input and output, and no other.
func descriptors(ts *testscript.TestScript, _ bool, args []string) {
	l, err := custody.List(context.Background(), custody.ListOptions{Dir: ts.Getenv("CUSTODY_DIR")})
	ts.Check(err)
	plain := exec.Command("sleep", "60")
	ts.Check(plain.Start())
	ts.Defer(func() { plain.Process.Kill(); plain.Wait() })
	for _, x := range l.Launches {
		if x.Name != args[0] {
			continue
		}
		var have, want string
		// Each has its own only when it has executed its program.
		for end := time.Now().Add(10 * time.Second); have == "" || have != want; time.Sleep(10 * time.Millisecond) {
			if have, want = files(ts, x.PID), files(ts, plain.Process.Pid); time.Now().After(end) {
				ts.Fatalf("it has %s\na plain child has %s", have, want)
			}
		}
		return
	}
	ts.Fatalf("no launch %s", args[0])
}

func files(ts *testscript.TestScript, pid int) string {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	ts.Check(err)
	var out []string
	for _, fd := range fds {
		link, _ := os.Readlink(filepath.Join(dir, fd.Name()))
		if n := fd.Name(); n == "1" || n == "2" {
			link = "" // the log of a launch, nothing for the child
		}
		out = append(out, fd.Name()+" "+link)
	}
	return strings.Join(out, ", ")
}
