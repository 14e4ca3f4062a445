// What the trees do over time: ends, signals, pipes, files, services.

package tree

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestExitBySignal(t *testing.T) {
	for _, name := range []string{"KILL", "TERM", "SEGV", "INT", "QUIT", "ABRT"} {
		cmd, _ := command(t, "exit", "-signal", name)
		cmd.Run()
		got := cmd.ProcessState.Sys().(interface{ Signal() unix.Signal }).Signal()
		if got != unix.SignalNum("SIG"+name) {
			t.Errorf("-signal %s: %v", name, cmd.ProcessState)
		}
	}
}

func TestExitLeavesHelper(t *testing.T) {
	r := run(t, 2, "exit", "-code", "7", "-helper-code", "5", "-helper-after", "100ms")
	r.cmd.Wait()
	var status unix.WaitStatus
	if _, err := unix.Wait4(r.role("helper", 0).PID, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	if r.cmd.ProcessState.ExitCode() != 7 || status.ExitStatus() != 5 {
		t.Errorf("leader %v, helper %v", r.cmd.ProcessState, status.ExitStatus())
	}
}

func TestPipeHolder(t *testing.T) {
	cmd, file := command(t, "pipe-holder", "-code", "7", "-setsid", "-ignore", "TERM,HUP",
		"-chatty", "10ms")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = nil
	r := &running{t: t, cmd: cmd, file: file}
	r.start(3)
	state, _ := cmd.Process.Wait()
	if state.ExitCode() != 7 {
		t.Errorf("leader: %v", state)
	}
	holder := r.role("holder", 0)
	if now := r.look(holder); now.sid != holder.PID || now.ppid != os.Getpid() {
		t.Errorf("holder is %+v", now)
	}
	buf := make([]byte, 4096)
	until(t, "the holder talks", func() bool {
		n, err := out.Read(buf)
		return err == nil && bytes.Contains(buf[:n], []byte("holder still here"))
	})
	out.Close()
	time.Sleep(50 * time.Millisecond)
	if gone(holder.PID) {
		t.Error("the holder ended with its reader")
	}
}

func TestCrashLoop(t *testing.T) {
	r := run(t, 13, "crash-loop", "-n", "6", "-life", "10ms")
	for i := range 6 {
		helper := r.role("helper", i)
		until(t, "the helper ends unwatched", func() bool { return gone(helper.PID) })
		// A zombie goes on to us when its parent crashes, at the latest.
		until(t, "the helper has lost its parent", func() bool { return r.look(helper).ppid == os.Getpid() })
	}
	if gone(r.role("leader", 0).PID) {
		t.Error("the leader is gone")
	}
}

func TestSiglog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	r := run(t, 2, "siglog", "-log", log, "-exit-on", "TERM", "-linger", "50ms")
	leader := r.role("leader", 0)
	want := ""
	for _, sig := range []unix.Signal{unix.SIGCONT, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1,
		unix.SIGTSTP, unix.SIGTERM} {
		r.cmd.Process.Signal(sig)
		want += "leader " + strconv.Itoa(leader.PID) + " " + nameOfSignal(sig) + "\n"
		until(t, "the log has "+sig.String(), func() bool {
			b, _ := os.ReadFile(log)
			return string(b) == want
		})
	}
	r.cmd.Wait()
	if r.cmd.ProcessState.String() != "signal: terminated" {
		t.Errorf("leader: %v", r.cmd.ProcessState)
	}
	if gone(r.role("child", 0).PID) {
		t.Error("the child got a signal")
	}
}

func TestSiglogDaemon(t *testing.T) {
	r := run(t, 3, "siglog", "-log", filepath.Join(t.TempDir(), "log"), "-double-fork",
		"-exit-on", "TERM", "-code", "9")
	if r.look(r.role("child", 0)).ppid != os.Getpid() {
		t.Error("the child is no daemon")
	}
	r.cmd.Process.Signal(unix.SIGTERM)
	r.cmd.Wait()
	if r.cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("leader: %v", r.cmd.ProcessState)
	}
}

func TestTrapStop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	r := run(t, 2, "trap-stop", "-file", file)
	shell := r.role("shell", 0)
	if r.look(shell).state != "T" {
		t.Error("the shell is not stopped")
	}
	fd, err := unix.PidfdOpen(shell.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
	time.Sleep(50 * time.Millisecond)
	if _, err := os.Stat(file); err == nil {
		t.Error("TERM alone was handled")
	}
	unix.PidfdSendSignal(fd, unix.SIGCONT, nil, 0)
	r.cmd.Wait()
	if b, _ := os.ReadFile(file); string(b) != "bye\n" || !r.cmd.ProcessState.Success() {
		t.Errorf("%q, %v", b, r.cmd.ProcessState)
	}
}

func TestEOFDeafChild(t *testing.T) {
	cmd, file := command(t, "eof-deaf")
	in, _ := cmd.StdinPipe()
	r := &running{t: t, cmd: cmd, file: file}
	r.start(2)
	in.Close()
	time.Sleep(100 * time.Millisecond)
	if gone(r.role("leader", 0).PID) || gone(r.role("child", 0).PID) {
		t.Error("ended with its input")
	}
}
