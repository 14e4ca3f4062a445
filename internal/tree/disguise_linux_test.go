// Members that look like something else in /proc, or show less of themselves.

package tree

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDecoy(t *testing.T) {
	r := run(t, 1, "decoy", "-name", "my-server", "--", "--port", "80")
	d := r.role("decoy", 0).PID
	if got := procFile(t, d, "cmdline"); got != "my-server\x00--port\x0080\x00" {
		t.Errorf("cmdline %q", got)
	}
	if got := procFile(t, d, "comm"); got != "my-server\n" {
		t.Errorf("comm %q", got)
	}
}

func TestRename(t *testing.T) {
	r := run(t, 1, "rename", "-name", "kworker/1:1")
	p := r.role("leader", 0).PID
	if got := procFile(t, p, "comm"); got != "kworker/1:1\n" {
		t.Errorf("comm %q", got)
	}
	if got := strings.TrimRight(procFile(t, p, "cmdline"), "\x00"); got != "[kworker/1:1]" {
		t.Errorf("cmdline %q", got)
	}
}

func TestRetitle(t *testing.T) {
	t.Setenv("TREE_MARK", "here")
	r := run(t, 1, "retitle")
	p := r.role("leader", 0).PID
	if got := procFile(t, p, "environ"); strings.Contains(got, "TREE_MARK") || !strings.HasPrefix(got, "xxx") {
		t.Errorf("environ %q", got)
	}
	if got := procFile(t, p, "cmdline"); !strings.HasPrefix(got, "postgres: idle in transaction ") {
		t.Errorf("cmdline %q", got)
	}
}

func TestNonDumpable(t *testing.T) {
	r := run(t, 1, "nondump")
	p := r.role("leader", 0).PID
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/environ", p), &st); err != nil || st.Uid != 0 {
		t.Errorf("environ belongs to %d, %v", st.Uid, err)
	}
	if os.Getuid() != 0 {
		if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p)); err == nil {
			t.Error("environ can be read")
		}
	}
}

func TestExecChain(t *testing.T) {
	r := run(t, 1, "exec-chain", "-n", "3", "-every", "30ms")
	p := r.role("leader", 0)
	until(t, "it reaches its last image", func() bool {
		return strings.Contains(procFile(t, p.PID, "cmdline"), "\x00-n\x000\x00")
	})
	if start, err := startTicks(p.PID); err != nil || start != p.Start {
		t.Errorf("start %d, was %d", start, p.Start)
	}
}

func TestForkStorm(t *testing.T) {
	r := run(t, 21, "forkstorm", "-n", "20", "-width", "3")
	until(t, "the last member ends", func() bool {
		for i := range 20 {
			if !gone(r.role("member", i).PID) {
				return false
			}
		}
		return true
	})
	if procs, _ := ReadPids(r.file); len(procs) != 21 {
		t.Errorf("%d lines", len(procs))
	}
}

func TestThreadMainExit(t *testing.T) {
	r := run(t, 1, "thread-main-exit", "-life", "1s")
	p := r.role("leader", 0)
	if now := r.look(p); now.state != "Z" {
		t.Errorf("main thread is %+v", now)
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if ends(fd, 50*time.Millisecond) {
		t.Error("it has ended")
	}
	if dirs, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID)); len(dirs) < 2 {
		t.Errorf("%d threads", len(dirs))
	}
	if !ends(fd, 5*time.Second) {
		t.Error("no deadline")
	}
}

func TestMixed(t *testing.T) {
	r := run(t, 8, "mixed")
	if !ignores(t, r.role("deaf", 0).PID, unix.SIGTERM) {
		t.Error("deaf hears")
	}
	if r.look(r.role("stopped", 0)).state != "T" {
		t.Error("stopped is not")
	}
	if procFile(t, r.role("renamed", 0).PID, "comm") != "kworker/0:0\n" {
		t.Error("renamed is not")
	}
	if !strings.HasPrefix(procFile(t, r.role("retitled", 0).PID, "environ"), "xxx") {
		t.Error("retitled is not")
	}
	daemon := r.role("daemon", 0)
	if now := r.look(daemon); now.ppid != os.Getpid() || now.sid != r.role("starter", 0).PID ||
		procFile(t, daemon.PID, "environ") != "" {
		t.Errorf("daemon is %+v", now)
	}
	time.Sleep(20 * time.Millisecond)
	if r.look(r.role("leader", 0)).state == "Z" {
		t.Error("the leader is gone")
	}
}
