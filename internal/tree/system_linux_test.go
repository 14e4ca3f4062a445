// The trees that need more of the system: cgroups, namespaces, terminals,
// file systems.

package tree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCgroupMove(t *testing.T) {
	needRoot(t)
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/unified/cgroup.procs"); err == nil {
		root += "/unified"
	}
	dir := fmt.Sprintf("%s/tree-test-%d", root, os.Getpid())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		until(t, "the cgroup is empty", func() bool { return os.Remove(dir) == nil })
	})
	if _, err := os.Stat(dir + "/cgroup.kill"); err != nil {
		t.Skip("no version 2 cgroup")
	}
	r := run(t, 2, "cgroup-move", "-to", dir)
	moved := r.role("moved", 0)
	if !strings.Contains(procFile(t, moved.PID, "cgroup"), filepath.Base(dir)) {
		t.Error("not moved")
	}
	if r.look(moved).ppid != r.role("leader", 0).PID {
		t.Error("left the lineage")
	}
}

func TestWrapPID1(t *testing.T) {
	cmd, _ := command(t, "wrap-pid1", "--", "/bin/sh", "-c", "echo $$ $(ls -d /proc/1); exit 7")
	out, _ := cmd.Output()
	if got := string(out); got != "1 /proc/1\n" {
		t.Skipf("no namespaces here? %q %v", got, cmd.ProcessState)
	}
	if cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}

func TestWrapPID1Default(t *testing.T) {
	needRoot(t)
	r := run(t, 2, "wrap-pid1", "-life", "3s")
	if r.role("pid1", 0).PID != 1 {
		t.Errorf("%v", r.all)
	}
}

func TestReuse(t *testing.T) {
	needRoot(t)
	log := filepath.Join(t.TempDir(), "log")
	pids := filepath.Join(t.TempDir(), "inner")
	cmd, file := command(t, "wrap-pid1", append([]string{"--"},
		Command("reuse", "-life", "20s", "-log", log, "-pids", pids)...)...)
	out := &bytes.Buffer{}
	cmd.Stdout = out
	r := &running{t: t, cmd: cmd, file: file}
	r.start(1)
	var inner []Proc
	until(t, "the number is given again", func() bool {
		inner, _ = ReadPids(pids)
		return len(inner) > 0 && inner[len(inner)-1].Role == "leader"
	})
	cmd.Process.Kill()
	cmd.Wait()
	var facts struct{ Old, New fact }
	if err := json.Unmarshal(out.Bytes(), &facts); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if facts.Old.PID == 0 || facts.Old.PID != facts.New.PID || facts.Old.Start >= facts.New.Start ||
		facts.Old.Inode == facts.New.Inode {
		t.Errorf("facts %+v", facts)
	}
	if s := inner[len(inner)-2]; s.Role != "stranger" || s.PID != facts.Old.PID || s.SID != s.PID {
		t.Errorf("stranger %v", s)
	}
	if b, _ := os.ReadFile(log); len(b) != 0 {
		t.Errorf("the stranger got %q", b)
	}
}

func TestPtyJobs(t *testing.T) {
	master, slave := openPty(t)
	cmd, file := command(t, "pty-jobs")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	r := &running{t: t, cmd: cmd, file: file}
	r.start(4)
	slave.Close()
	if r.look(r.role("reader", 0)).state != "T" {
		t.Error("the reader is not stopped")
	}
	for _, name := range []string{"deaf", "unsent", "reader"} {
		p := r.role(name, 0)
		if now := r.look(p); now.pgid != p.PID || now.sid != cmd.Process.Pid {
			t.Errorf("%s is %+v", name, now)
		}
	}
	master.Close()
	cmd.Wait()
	if cmd.ProcessState.String() != "signal: hangup" {
		t.Errorf("leader: %v", cmd.ProcessState)
	}
	time.Sleep(50 * time.Millisecond)
	if gone(r.role("deaf", 0).PID) || gone(r.role("unsent", 0).PID) {
		t.Error("a job ended with the terminal")
	}
}

func openPty(t *testing.T) (master, slave *os.File) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	return master, slave
}
