// The parts of the package that are the same everywhere: being played by the
// test binary, announcing, exact ends, deadlines.

package tree

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// command makes a tree program ready to start, with a file for its lines.
func command(t *testing.T, name string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pids")
	argv := Command(name, append([]string{"-pids", file, "-life", "20s"}, args...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	return cmd, file
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestNames(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) || !slices.Contains(names, "exit") {
		t.Fatalf("Names() = %q", names)
	}
	if argv := Command("exit", "-code", "3"); argv[1] != "tree:exit" || argv[3] != "3" {
		t.Fatalf("Command = %q", argv)
	}
}

func TestUnknownProgram(t *testing.T) {
	cmd, _ := command(t, "no-such-tree")
	cmd.Stderr = nil
	if cmd.Run(); cmd.ProcessState.ExitCode() != exitUsage {
		t.Fatalf("ended with %v", cmd.ProcessState)
	}
}

func TestExitCodes(t *testing.T) {
	for _, code := range []string{"0", "1", "7", "255"} {
		cmd, file := command(t, "exit", "-code", code)
		cmd.Run()
		if got := cmd.ProcessState.String(); got != "exit status "+code {
			t.Errorf("-code %s: %s", code, got)
		}
		procs, err := Wait(soon(t), file, 1)
		if err != nil || len(procs) != 1 || procs[0].PID != cmd.ProcessState.Pid() {
			t.Errorf("announced %v, %v", procs, err)
		}
	}
}

func TestDeadline(t *testing.T) {
	cmd, _ := command(t, "sleep", "-ignore", "INT", "-life", "50ms")
	cmd.Run()
	if cmd.ProcessState.ExitCode() != exitDeadline {
		t.Fatalf("ended with %v", cmd.ProcessState)
	}
}

func TestReadPids(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	want := Proc{Role: "leader", PID: 7, Start: 8, Inode: 9, PGID: 10, SID: 11}
	if err := appendLine(file, want.String()); err != nil {
		t.Fatal(err)
	}
	procs, err := ReadPids(file)
	if err != nil || len(procs) != 1 || procs[0] != want {
		t.Fatalf("read %v, %v", procs, err)
	}
	appendLine(file, "half a")
	if _, err := ReadPids(file); err == nil {
		t.Fatal("a bad line is no error")
	}
}

func TestWaitEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := Wait(ctx, filepath.Join(t.TempDir(), "none"), 1)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait = %v", err)
	}
}

func TestWrapperPassesAndHides(t *testing.T) {
	work := Command("exit", "-code", "7")
	for status, want := range map[string]int{"pass": 7, "hide": 1} {
		cmd, _ := command(t, "wrapper",
			append([]string{"-depth", "2", "-status", status, "--"}, work...)...)
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: %d, want %d", status, got, want)
		}
	}
}

func TestEOFDeafReads(t *testing.T) {
	cmd, file := command(t, "eof-deaf", "-alone", "-life", "2s")
	cmd.Stdin = bytes.NewReader(nil)
	start := time.Now()
	cmd.Run()
	if time.Since(start) < time.Second {
		b, _ := os.ReadFile(file)
		t.Fatalf("ended with its input: %v %s", cmd.ProcessState, strings.TrimSpace(string(b)))
	}
}
