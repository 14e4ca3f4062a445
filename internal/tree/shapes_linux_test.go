// Lineage, groups and sessions: each tree really has the shape that its name
// promises.

package tree

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDoubleFork(t *testing.T) {
	t.Setenv("TREE_MARK", "here")
	r := run(t, 3, "double-fork")
	leader, starter, daemon := r.role("leader", 0), r.role("starter", 0), r.role("daemon", 0)
	if !gone(starter.PID) {
		t.Error("the starter lives")
	}
	now := r.look(daemon)
	if now.ppid != os.Getpid() || now.sid != starter.PID || now.pgid != starter.PID {
		t.Errorf("daemon is %+v, starter was %d", now, starter.PID)
	}
	if leader.SID == daemon.SID || gone(leader.PID) {
		t.Errorf("leader %v, daemon %v", leader, daemon)
	}
	if env := procFile(t, daemon.PID, "environ"); env != "" {
		t.Errorf("environment of the daemon: %q", env)
	}
}

func TestDoubleForkLeaderExits(t *testing.T) {
	r := run(t, 3, "double-fork", "-leader", "exit", "-code", "4", "-clear-env=false")
	r.cmd.Wait()
	if r.cmd.ProcessState.ExitCode() != 4 || gone(r.role("daemon", 0).PID) {
		t.Errorf("leader: %v", r.cmd.ProcessState)
	}
	if procFile(t, r.role("daemon", 0).PID, "environ") == "" {
		t.Error("no environment")
	}
}

func TestSetsidEscapee(t *testing.T) {
	r := run(t, 2, "setsid-escapee", "-ignore", "TERM,HUP", "-clear-env")
	escapee := r.role("escapee", 0)
	now := r.look(escapee)
	if now.ppid != r.role("leader", 0).PID || now.sid != escapee.PID || now.pgid != escapee.PID {
		t.Errorf("escapee is %+v", now)
	}
	if !ignores(t, escapee.PID, unix.SIGTERM) || ignores(t, escapee.PID, unix.SIGINT) {
		t.Error("ignores other signals than asked")
	}
	if env := procFile(t, escapee.PID, "environ"); env != "" {
		t.Errorf("environment of the escapee: %q", env)
	}
}

func TestTermIgnore(t *testing.T) {
	r := run(t, 4, "term-ignore", "-n", "3", "-leader", "obey")
	for i := range 3 {
		for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP,
			unix.SIGQUIT, unix.SIGUSR1, unix.SIGPIPE, unix.SIGALRM} {
			if !ignores(t, r.role("child", i).PID, sig) {
				t.Errorf("child %d hears %v", i, sig)
			}
		}
	}
	if ignores(t, r.role("leader", 0).PID, unix.SIGTERM) {
		t.Error("the leader does not obey")
	}
}

func TestStopped(t *testing.T) {
	r := run(t, 2, "stopped", "-setsid", "-leader")
	c := r.role("child", 0)
	if now := r.look(c); now.state != "T" || now.sid != c.PID {
		t.Errorf("child is %+v", now)
	}
	until(t, "the leader stops", func() bool { return r.look(r.role("leader", 0)).state == "T" })
}

func TestStoppedMeetsItsDeadline(t *testing.T) {
	r := run(t, 2, "stopped", "-leader", "-life", "700ms")
	until(t, "both end although stopped", func() bool {
		return gone(r.role("leader", 0).PID) && gone(r.role("child", 0).PID)
	})
}

func TestLeaderDies(t *testing.T) {
	r := run(t, 4, "leader-dies", "-leader", "signal", "-signal", "KILL", "-pgrp",
		"-ignore", "TERM,INT,HUP")
	r.cmd.Wait()
	if got := r.cmd.ProcessState.String(); got != "signal: killed" {
		t.Errorf("leader: %s", got)
	}
	for i := range 3 {
		m := r.role("member", i)
		if now := r.look(m); now.pgid != r.role("leader", 0).PID || now.state == "Z" {
			t.Errorf("member is %+v", now)
		}
		if !ignores(t, m.PID, unix.SIGTERM) {
			t.Error("a member hears TERM")
		}
	}
}

func TestWrapperForwardsNothing(t *testing.T) {
	r := run(t, 3, "wrapper", "-depth", "2")
	w2 := r.role("wrapper2", 0)
	if r.look(w2).ppid != r.role("wrapper1", 0).PID || r.look(r.role("work", 0)).ppid != w2.PID {
		t.Errorf("no chain: %v", r.all)
	}
	r.cmd.Process.Signal(unix.SIGTERM)
	r.cmd.Wait()
	if gone(w2.PID) || gone(r.role("work", 0).PID) {
		t.Error("the work ended with the wrapper")
	}
}

func TestUnreaped(t *testing.T) {
	r := run(t, 4, "unreaped", "-n", "3")
	for i := range 3 {
		if now := r.look(r.role("dead", i)); now.state != "Z" || now.ppid != r.role("leader", 0).PID {
			t.Errorf("dead is %+v", now)
		}
	}
}

func TestSubreaperChild(t *testing.T) {
	r := run(t, 7, "subreaper-child", "-n", "2", "-dead", "1")
	reaper := r.role("reaper", 0).PID
	for i := range 2 {
		g := r.role("grandchild", i)
		if now := r.look(g); now.ppid != reaper || now.pgid != g.PID {
			t.Errorf("grandchild is %+v", now)
		}
		if r.look(r.role("starter", i)).state != "Z" {
			t.Error("a starter was collected")
		}
	}
	if r.look(r.role("dead", 0)).state != "Z" {
		t.Error("the dead one was collected")
	}
}
