package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
	"github.com/jedib0t/go-pretty/v6/text"
)

// asCustody is this test binary as custody, on the state directory dir.
func asCustody(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(dir), "custody")
	if err := os.Symlink(exe, link); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	c := exec.Command(link, args...)
	c.Env = append(os.Environ(), "CUSTODY_DIR="+dir, "TREE_PIDS="+dir+".pids", "LANG=C.UTF-8", "LC_ALL=", "LC_CTYPE=", "TERM=xterm", "NO_COLOR=")
	return c
}

// onTerminal runs custody on a terminal of 60 columns and returns what it
// wrote there.
func onTerminal(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	f, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: 60})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, _ := io.ReadAll(f) // EIO when the last writer is gone
	c.Wait()
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// On a terminal there is colour, lines fit, and a stop that takes time shows a
// line that goes away again.
func TestOnATerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() { endAll(dir) })
	argv := tree.Command("term-ignore", "-n", "1", "-life", "60s", strings.Repeat("wide ", 30))
	run := asCustody(t, dir, append([]string{"run", "--name", "web", "--"}, argv...)...)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	waitForMembers(t, dir, 2)
	ls := onTerminal(t, asCustody(t, dir, "ls"))
	if !strings.Contains(ls, "\x1b[32mrunning\x1b[0m") || !strings.Contains(ls, "…") {
		t.Errorf("ls without colour, or not cut: %q", ls)
	}
	for line := range strings.Lines(ls) {
		if w := text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")); w > 80 {
			t.Errorf("%d columns: %q", w, line)
		}
	}
	plain := asCustody(t, dir, "ls")
	plain.Env = append(plain.Env, "NO_COLOR=1")
	if ls := onTerminal(t, plain); strings.Contains(ls, "\x1b") {
		t.Errorf("colour in spite of NO_COLOR: %q", ls)
	}
	stop := onTerminal(t, asCustody(t, dir, "stop", "web", "--phase", "TERM:1s", "--phase", "KILL:20s"))
	if !strings.Contains(stop, "\r\x1b[Kstopping web: phase 1 of 2 (TERM:1s), 2 left, ") {
		t.Errorf("no live line: %q", stop)
	}
	_, rest, _ := strings.Cut(stop, "\r\x1b[K\x1b[1m")
	if !strings.HasSuffix(rest, "2 processes signalled\n") || strings.Contains(rest, "stopping") {
		t.Errorf("the live line did not go away: %q", stop)
	}
	run.Wait()
}

// Ctrl-C while a stop waits: it says what it left, and keeps the record.
func TestInterruptedStop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() { endAll(dir) })
	run := asCustody(t, dir, append([]string{"run", "--name", "web", "--"}, tree.Command("term-ignore", "-n", "1", "-life", "60s")...)...)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	waitForMembers(t, dir, 2)
	stop := asCustody(t, dir, "stop", "web", "-v", "--phase", "TERM:50s")
	said, err := stop.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := stop.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	interrupted := false
	for lines := bufio.NewScanner(said); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if !interrupted && strings.Contains(lines.Text(), "signal=TERM") {
			interrupted = true
			stop.Process.Signal(os.Interrupt)
		}
	}
	stop.Wait()
	if code := stop.ProcessState.ExitCode(); code != exitIncomplete {
		t.Errorf("exit status %d, want %d", code, exitIncomplete)
	}
	if !strings.Contains(text.String(), ": interrupted, 2 processes live; its record is kept") {
		t.Errorf("it said %q", text.String())
	}
	waitForMembers(t, dir, 2)
	endAll(dir)
	run.Wait()
}

// waitForMembers waits until a launch has n members that took their shape.
func waitForMembers(t *testing.T, dir string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := tree.Wait(ctx, dir+".pids", n); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		l, err := custody.List(context.Background(), custody.ListOptions{Dir: dir})
		if err == nil && len(l.Launches) == 1 && len(l.Launches[0].Members) == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no %d members: %v, %+v", n, err, l)
		}
	}
}

// freePort is a port that nobody has, for now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// On a terminal a start that waits says for what, in a line that goes away.
func TestStartWaitsOnATerminal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() { endAll(dir) })
	shown := onTerminal(t, asCustody(t, dir, "start", "--name", "web", "--ready", "log:up", "--", "sh", "-c", "sleep 1.5; echo up; sleep 60"))
	if !strings.Contains(shown, "\r\x1b[Kwaiting for log:up, ") {
		t.Errorf("no live line: %q", shown)
	}
	if i := strings.LastIndex(shown, "\r\x1b[K"); i < 0 || strings.Contains(shown[i:], "waiting") || !strings.Contains(shown[i:], "running") {
		t.Errorf("the line stays, or no result: %q", shown)
	}
	// Something that takes its time to go.
	onTerminal(t, asCustody(t, dir, "start", "--name", "stays", "--phase", "TERM:1500ms", "--phase", "KILL:20s", "--ready", "log:up", "--",
		"sh", "-c", "trap '' TERM; echo up; sleep 60 & wait; wait"))
	if shown := onTerminal(t, asCustody(t, dir, "start", "--name", "stays", "--replace", "--", "sleep", "60")); !strings.Contains(shown, "\r\x1b[Kwaiting for stays and its ports to be free, ") {
		t.Errorf("no live line: %q", shown)
	}
	endAll(dir)
	start := asCustody(t, dir, "start", "--name", "web", "--port", freePort(t), "--", "sleep", "60")
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if shown := onTerminal(t, asCustody(t, dir, "ready", "web", "--timeout", "1500ms")); !strings.Contains(shown, "\r\x1b[Kwaiting for its ports, ") {
		t.Errorf("no live line: %q", shown)
	}
}
