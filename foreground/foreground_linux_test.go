package foreground_test

// The terminal cases run the real thing: this test binary as 'custody run' on
// a pseudo-terminal, alone or below an interactive bash.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/custody-project/custody"
	"github.com/custody-project/custody/foreground"
	"github.com/custody-project/custody/internal/tree"
)

func TestMain(m *testing.M) {
	custody.ServeHelper()
	tree.Main()
	if os.Getenv("FOREGROUND_WRAP") != "" {
		os.Exit(wrap(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// wrap is what custody run does, without its flags.
func wrap(args []string) int {
	os.Unsetenv("FOREGROUND_WRAP")
	signals := foreground.Watch()
	o, err := custody.Open(context.Background(), "foreground", &custody.Options{Dir: os.Getenv("FOREGROUND_DIR")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	cmd := o.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Phases = []custody.Phase{{Signal: syscall.SIGTERM, Wait: time.Second}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
	if plan := os.Getenv("FOREGROUND_PLAN"); plan != "" {
		cmd.Phases = nil
		for p := range strings.SplitSeq(plan, ",") {
			ph, err := custody.ParsePhase(p)
			if err != nil {
				panic(err)
			}
			cmd.Phases = append(cmd.Phases, ph)
		}
	}
	err = foreground.Run(context.Background(), cmd, signals, foreground.Options{NoParent: os.Getenv("FOREGROUND_NOPARENT") != ""})
	o.Close()
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		return 125
	}
	return foreground.Mirror(cmd.ProcessState)
}

func environ(t *testing.T) []string {
	dir := filepath.Join(t.TempDir(), "state")
	return append(os.Environ(), "FOREGROUND_WRAP=1", "FOREGROUND_DIR="+dir)
}

// session is a command on a pseudo-terminal of which it leads the session.
type session struct {
	t   *testing.T
	cmd *exec.Cmd
	pty *os.File

	mu  sync.Mutex
	out strings.Builder
}

func start(t *testing.T, env []string, argv ...string) *session {
	t.Helper()
	s := &session{t: t, cmd: exec.Command(argv[0], argv[1:]...)}
	s.cmd.Env = env
	master, err := pty.Start(s.cmd)
	if err != nil {
		t.Fatal(err)
	}
	// The package leaves the file in blocking mode, where a Close waits for the
	// Read in progress.
	fd, err := syscall.Dup(int(master.Fd()))
	if err == nil {
		err = errors.Join(syscall.SetNonblock(fd, true), master.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	s.pty = os.NewFile(uintptr(fd), "pty")
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := s.pty.Read(b)
			s.mu.Lock()
			s.out.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		s.pty.Close()
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
	return s
}

func (s *session) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func (s *session) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Reset()
}

func (s *session) typed(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.pty, text); err != nil {
		s.t.Fatal(err)
	}
}

// expect waits until the output holds the text.
func (s *session) expect(text string) {
	s.t.Helper()
	until(s.t, fmt.Sprintf("output %q", text), func() bool { return strings.Contains(s.text(), text) }, s.text)
}

func until(t *testing.T, what string, f func() bool, more ...func() string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if f() {
			return
		}
	}
	for _, m := range more {
		what += "\n" + m()
	}
	t.Fatalf("waited in vain for %s", what)
}

func field(t *testing.T, pid, n int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "gone"
	}
	return strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[n-3]
}

func state(t *testing.T, pid int) string { return field(t, pid, 3) }

// received counts the signals in a siglog file, by role and name.
func received(t *testing.T, file string) map[string]int {
	got := map[string]int{}
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		got[f[0]+" "+f[2]]++
	}
	return got
}

func siglog(t *testing.T, dir string) (argv []string, log, pids string) {
	log, pids = filepath.Join(dir, "log"), filepath.Join(dir, "pids")
	return tree.Command("siglog", "-log", log, "-pids", pids, "-life", "60s", "-exit-on", "TERM"), log, pids
}

func await(t *testing.T, pids string, n int) []tree.Proc {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ps, err := tree.Wait(ctx, pids, n)
	if err != nil {
		t.Fatal(err)
	}
	return ps
}

// C36: Ctrl-C reaches every member exactly once, and a TERM to the wrapper
// reaches every member exactly once. Nothing else arrives.
func TestC36_SignalsArriveOnce(t *testing.T) {
	self, _ := os.Executable()
	argv, log, pids := siglog(t, t.TempDir())
	s := start(t, environ(t), append([]string{self}, argv...)...)
	await(t, pids, 2)
	if st := state(t, s.cmd.Process.Pid); st == "T" {
		t.Errorf("the wrapper is stopped")
	}
	s.typed("\x03")
	until(t, "INT at leader and child", func() bool {
		got := received(t, log)
		return got["leader INT"] >= 1 && got["child INT"] >= 1
	})
	s.cmd.Process.Signal(syscall.SIGTERM)
	err := s.cmd.Wait()
	for _, want := range []string{"leader INT", "child INT", "leader TERM", "child TERM"} {
		if n := received(t, log)[want]; n != 1 {
			t.Errorf("%s arrived %d times, want once; all: %v", want, n, received(t, log))
		}
	}
	got := received(t, log)
	delete(got, "leader CHLD") // of its own child, if that ended first
	if len(got) != 4 {
		t.Errorf("other signals arrived: %v", got)
	}
	var ee *exec.ExitError
	if !errors.As(err, &ee) || ee.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the wrapper ended with %v, want the leader's end by TERM", err)
	}
}

// A plan that has the signal we got is begun there: no signal arrives twice.
func TestSignalOfThePlan(t *testing.T) {
	self, _ := os.Executable()
	argv, log, pids := siglog(t, t.TempDir())
	cmd := exec.Command(self, argv...)
	cmd.Env = append(environ(t), "FOREGROUND_PLAN=INT:2s,TERM:2s,KILL:5s")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, pids, 2)
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if got := received(t, log); len(got) != 2 || got["leader TERM"] != 1 || got["child TERM"] != 1 {
		t.Errorf("signals %v, want one TERM each", got)
	}
}

// What is ignored where custody is started, as under nohup, stays ignored.
func TestIgnoredHangup(t *testing.T) {
	self, _ := os.Executable()
	argv, log, pids := siglog(t, t.TempDir())
	cmd := exec.Command("nohup", append([]string{self}, argv...)...)
	cmd.Env = environ(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ps := await(t, pids, 2)
	cmd.Process.Signal(syscall.SIGHUP)
	time.Sleep(300 * time.Millisecond)
	if got := received(t, log); len(got) != 0 || over(t, ps[0]) {
		t.Errorf("signals %v, leader over %v", got, over(t, ps[0]))
	}
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
}

// C36: closing the terminal ends the tree, with the jobs of an interactive
// shell in it: one in the background, one deaf to the hangup, one stopped on
// input.
func TestC36_ClosedTerminal(t *testing.T) {
	self, _ := os.Executable()
	pids := filepath.Join(t.TempDir(), "pids")
	s := start(t, append(environ(t), "PS1=ready> ", "TERM=dumb"), self, "bash", "--norc", "--noprofile", "-i")
	s.expect("ready> ")
	job := func(role string, flags ...string) string {
		return strings.Join(tree.Command("sleep", append([]string{"-role", role, "-pids", pids, "-life", "60s"}, flags...)...), " ")
	}
	s.typed(job("background") + " &\n")
	s.typed(job("deaf", "-ignore", "HUP,TERM") + " &\n")
	s.typed("(" + job("foreground") + "; cat) &\n")
	s.typed("cat &\n")
	ps := await(t, pids, 3)
	s.pty.Close()
	for _, p := range ps {
		until(t, fmt.Sprintf("%s %d to end", p.Role, p.PID), func() bool { return over(t, p) })
	}
	s.cmd.Wait()
}

// C36: a wrapper in the background leaves the terminal alone, is never stopped
// by it, and gets it when the shell brings it to the front; Ctrl-Z and fg work
// as without a wrapper.
func TestC36_JobControl(t *testing.T) {
	self, _ := os.Executable()
	env := append(environ(t), "PS1=ready> ", "TERM=dumb")
	s := start(t, env, "bash", "--norc", "--noprofile", "-i")
	s.expect("ready> ")

	cat := self + ` sh -c 'echo u""p; exec cat'`
	s.typed(cat + "\n")
	s.expect("up\r\n")
	s.typed("hello\n")
	s.expect("hello\r\nhello")
	s.clear()
	s.typed("\x1a")
	s.expect("Stopped")
	s.expect("ready> ")
	s.clear()
	s.typed("fg\n")
	s.expect("exec cat'\r\n")
	s.typed("again\n")
	s.expect("again\r\nagain")
	s.clear()
	s.typed("\x04")
	s.expect("ready> ")

	s.clear()
	// Stopped by something else than the terminal, it gives the terminal back
	// as well.
	for _, sig := range []string{"STOP", "TTIN"} {
		s.clear()
		s.typed(self + " sh -c 'kill -" + sig + " $$; echo res\"\"umed'\n")
		s.expect("Stopped")
		s.expect("ready> ")
		s.clear()
		s.typed("fg\n")
		s.expect("resumed\r\n")
		s.expect("ready> ")
	}

	s.clear()
	s.typed(cat + " &\n")
	s.expect("up\r\n")
	var bg int
	until(t, "the background job's pid", func() bool {
		_, after, ok := strings.Cut(s.text(), "[1] ")
		if ok {
			bg, _ = strconv.Atoi(strings.Fields(after + " x")[0])
		}
		return bg > 0
	}, s.text)
	for range 30 {
		if st := state(t, bg); st == "T" {
			t.Fatalf("the wrapper in the background is stopped")
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.clear()
	s.typed("fg\n")
	s.expect("exec cat'\r\n")
	s.typed("front\n")
	s.expect("front\r\nfront")
	s.clear()
	s.typed("\x03")
	s.expect("ready> ")
	s.clear()
	s.typed("echo status=$?\n")
	s.expect("status=130")
	// The terminal is the shell's again: a job that reads it is not stopped.
	s.clear()
	s.typed("echo go; read -t 20 line; echo got=$line\n")
	s.expect("go\r\n")
	s.typed("mine\n")
	s.expect("got=mine")
}

// A record that somebody deleted is no proof that the tree is gone: the keeper
// ends it by what it remembers.
func TestStateDirectoryDeleted(t *testing.T) {
	self, _ := os.Executable()
	dir := t.TempDir()
	pids := filepath.Join(dir, "pids")
	cmd := exec.Command(self, tree.Command("mixed", "-pids", pids, "-life", "60s")...)
	state := filepath.Join(dir, "state")
	cmd.Env = append(os.Environ(), "FOREGROUND_WRAP=1", "FOREGROUND_DIR="+state)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ps := await(t, pids, 8)
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	for _, p := range ps {
		until(t, fmt.Sprintf("%s %d to end", p.Role, p.PID), func() bool { return over(t, p) })
	}
}

// over reports whether the announced process has ended.
func over(t *testing.T, p tree.Proc) bool {
	return field(t, p.PID, 22) != strconv.FormatUint(p.Start, 10) || state(t, p.PID) == "Z"
}

// The wrapper's tree ends with the wrapper's parent.
func TestParentDeath(t *testing.T) {
	self, _ := os.Executable()
	dir := t.TempDir()
	argv, _, pids := siglog(t, dir)
	// sh stays between, as the parent that dies.
	sh := exec.Command("sh", "-c", `"$@" & wait`, "sh", self)
	sh.Args = append(sh.Args, argv...)
	sh.Env = environ(t)
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	ps := await(t, pids, 2)
	sh.Process.Kill()
	sh.Wait()
	for _, p := range ps {
		until(t, fmt.Sprintf("%s %d to end", p.Role, p.PID), func() bool { return over(t, p) })
	}
}
