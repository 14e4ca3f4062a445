//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

// A controller is killed, and the next one has the same server within a
// second: same postmaster, same address, and who was connected stays so.
func TestServerOutlivesItsController(t *testing.T) {
	both(t, func(t *testing.T, h *host) {
		c := h.run()
		c.says("started ")
		c.says("ready ")
		before := h.status()
		s := h.connect()
		backend := s.number("select pg_backend_pid()")
		s.send("create table kept as select 42 as answer")
		wrong := h.connect() // what it asks for comes into the server's log
		wrong.send("select 'controller 0' from nowhere")

		var took []time.Duration
		for n := range 3 {
			c.kill()
			wrong.send(fmt.Sprintf("select 'no controller %d' from nowhere", n))
			if st := h.status(); st.State != custody.StateRunning || st.Owner.Alive {
				t.Fatalf("without a controller: %+v", st)
			}
			if n := s.number("select answer from kept"); n != 42 {
				t.Errorf("without a controller the server answers %d", n)
			}
			until(t, "the end of what the controller had started", 10*time.Second, func() bool {
				return !slices.ContainsFunc(h.helpers(), func(line string) bool { return strings.Contains(line, " wait ") })
			})
			c = h.run()
			line, d := c.says("adopted ")
			if !strings.Contains(line, fmt.Sprintf("pid=%d", before.PID)) {
				t.Errorf("postmaster %d, and the controller says %q", before.PID, line)
			}
			took = append(took, d)
			c.says("ready ")
			wrong.send(fmt.Sprintf("select 'controller %d' from nowhere", n+1))
			if n := s.number("select pg_backend_pid()"); n != backend {
				t.Errorf("backend %d, was %d", n, backend)
			}
			if n := h.connect().number("select answer from kept"); n != 42 {
				t.Errorf("a new connection gets %d", n)
			}
			st := h.status()
			if st.ID != before.ID || st.PID != before.PID || st.KeeperPID != before.KeeperPID || !st.Owner.Alive || st.Owner.PID != c.cmd.Process.Pid {
				t.Errorf("%+v, was %+v", st, before)
			}
			if n := slices.IndexFunc(c.lines(), func(l string) bool { return strings.Contains(l, "started ") }); n >= 0 {
				t.Errorf("the next controller starts a server: %s", c.lines()[n])
			}
		}
		if slices.Min(took) > time.Second && load(t) < 4*float64(runtime.NumCPU()) {
			t.Errorf("took more than a second each time: %v", took)
		}
		t.Logf("adopted after %v", took)
		for n := range 3 {
			for _, who := range []string{fmt.Sprintf("'controller %d'", n), fmt.Sprintf("'no controller %d'", n), fmt.Sprintf("'controller %d'", n+1)} {
				until(t, "the log to tell of "+who, 10*time.Second, func() bool { return strings.Contains(h.logged(), who) })
			}
		}

		// A second controller is told who has it.
		second := h.run()
		second.says(fmt.Sprintf("owned by process %d", c.cmd.Process.Pid))
		if err := second.ends(); err == nil {
			t.Error("the second controller ends well")
		}

		// Asked to end, a controller leaves the server running too.
		c.cmd.Process.Signal(syscall.SIGTERM)
		if err := c.ends(); err != nil {
			t.Errorf("the controller ends with %v", err)
		}
		if n := s.number("select answer from kept"); n != 42 {
			t.Errorf("after the controller's end the server answers %d", n)
		}
		if st := h.status(); st.State != custody.StateRunning || st.PID != before.PID {
			t.Errorf("after the controller's end: %+v", st)
		}
	})
}

// A stop ends every backend, whatever it is doing, and with the last one goes
// the directory.
func TestStopEndsEveryBackend(t *testing.T) {
	both(t, func(t *testing.T, h *host) { stopped(t, h, false) })
}

// A directory that was to be kept stays, and serves the next server.
func TestStopKeepsTheDirectory(t *testing.T) {
	both(t, func(t *testing.T, h *host) { stopped(t, h, true) })
}

// computing is a statement that never looks up, and whose backend does not see
// that the postmaster has died; active counts the backends at work.
const (
	computing = "select count(*) from generate_series(1, 1000000000) a where a % 7 = 0"
	active    = "select count(*) from pg_stat_activity where state = 'active' and backend_type = 'client backend' and pid <> pg_backend_pid()"
)

func stopped(t *testing.T, h *host, kept bool) {
	var arg []string
	if kept {
		arg = []string{"--data", h.data}
	}
	c := h.run(arg...)
	c.says("ready ")
	s := h.connect()
	s.ask("create table kept as select 42 as answer; select 1")
	idle, long, busy := h.connect(), h.connect(), h.connect()
	idle.ask("begin; lock table kept; select 1")
	long.ask("select 1")
	long.send("select pg_sleep(300)")
	busy.ask("select 1")
	busy.send(computing)
	s.send("select answer from kept") // waits for the lock
	until(t, "three busy backends", 10*time.Second, func() bool {
		return h.connect().number(active) == 3
	})
	st := h.status()
	w := watching(t, st.PIDs)
	dirs, _ := filepath.Glob(h.tmp + "/custody-*-DATA/DATA/db/PG_VERSION")
	if len(dirs) != map[bool]int{false: 1, true: 0}[kept] {
		t.Errorf("temporary databases: %q", dirs)
	}

	stop := h.run("--stop")
	if err := stop.ends(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if live := w.alive(); len(live) > 0 {
		t.Errorf("after the stop there live %v", live)
	}
	if err := c.ends(); err != nil {
		t.Errorf("the controller of a stopped server ends with %v", err)
	}
	if st := h.status(); st.State != custody.StateExited || st.Exit == nil || !st.Exit.Success() {
		t.Errorf("after the stop: %s", st)
	}
	if left, _ := filepath.Glob(h.tmp + "/custody-*"); len(left) > 0 {
		t.Errorf("directories are left: %q", left)
	}
	if _, err := os.Stat(filepath.Join(h.data, "db")); (err == nil) != kept {
		t.Errorf("the database: %v, kept %v", err, kept)
	}
	if !kept {
		return
	}
	next := h.run(arg...)
	next.says("ready ")
	if n := h.connect().number("select answer from kept"); n != 42 {
		t.Errorf("the kept database answers %d", n)
	}
}

// The postmaster is killed: its workers end, and then another takes its place.
func TestKilledServerIsReplaced(t *testing.T) {
	both(t, func(t *testing.T, h *host) {
		c := h.run("--data", h.data)
		c.says("ready ")
		s := h.connect()
		s.ask("create table kept as select 42 as answer; select 1")
		s.send(computing)
		until(t, "a busy backend", 10*time.Second, func() bool { return h.connect().number(active) == 1 })
		first := h.status()
		w := watching(t, first.PIDs)
		w.kill(first.PID)
		until(t, "the end of the workers", 30*time.Second, func() bool { return len(w.alive()) == 0 })
		until(t, "another server", time.Minute, func() bool {
			return strings.Count(strings.Join(c.lines(), "\n"), "ready ") == 2
		})
		second := h.status()
		if second.ID == first.ID || second.State != custody.StateRunning {
			t.Errorf("in place of %+v there is %+v", first, second)
		}
		if n := h.connect().number("select answer from kept"); n != 42 {
			t.Errorf("the database answers %d", n)
		}

		// Killed while nobody watches: how it ended is known to who comes next.
		c.kill()
		w = watching(t, second.PIDs)
		w.kill(second.PID)
		until(t, "the end of the workers", 30*time.Second, func() bool { return len(w.alive()) == 0 })
		until(t, "the end of the launch", 30*time.Second, func() bool { return h.status().State == custody.StateExited })
		if x := h.status().Exit; x == nil || x.Signal != "KILL" {
			t.Errorf("the server was killed, and its status is %v", x)
		}
		c = h.run("--data", h.data)
		if line, _ := c.says("server had ended"); !strings.Contains(line, "KILL") && !strings.Contains(line, "killed") {
			t.Errorf("the next controller says %q", line)
		}
		c.says("ready ")
		if n := h.connect().number("select answer from kept"); n != 42 {
			t.Errorf("the database answers %d", n)
		}
	})
}

// Controllers are killed at any moment of a start: the one that lives finds or
// starts the server, and there is one.
func TestControllerKilledDuringStart(t *testing.T) {
	both(t, func(t *testing.T, h *host) {
		for _, after := range []time.Duration{1, 5, 20, 50, 100, 150, 200, 300, 500, 1000} {
			c := h.run("--data", h.data)
			time.Sleep(after * time.Millisecond)
			c.kill()
		}
		c := h.run("--data", h.data)
		c.says("ready ")
		if n := h.connect().number("select 42"); n != 42 {
			t.Errorf("the server answers %d", n)
		}
		// What one controller had started the next ones took over.
		running := h.launches()
		if len(running) != 1 || running[0].State != "running" {
			t.Fatalf("%d launches, want one: %+v", len(running), running)
		}
		// A postmaster's children are its workers: every other one is a postmaster.
		if pids := postgres(h.data); len(pids) != 1 || pids[0] != running[0].PID {
			t.Errorf("postmasters %v, want %d", pids, running[0].PID)
		}
	})
}

// postgres returns the processes that serve a database and are no worker.
func postgres(data string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		line, _ := os.ReadFile(p + "/cmdline")
		if cwd, _ := os.Readlink(p + "/cwd"); cwd == filepath.Join(data, "db") && strings.HasPrefix(string(line), "postgres\x00") {
			var pid int
			fmt.Sscan(filepath.Base(p), &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

// A stranger listens on the port: nothing is started, the stranger is named and
// left alone. And a server that can't start is not started for ever.
func TestServerCannotStart(t *testing.T) {
	both(t, func(t *testing.T, h *host) {
		pid, leave := h.stranger()
		c := h.run()
		c.says(fmt.Sprintf("port %d is held by process %d", h.port, pid))
		if err := c.ends(); err == nil {
			t.Error("the controller ends well")
		}
		if ls := h.launches(); len(ls) > 0 {
			t.Errorf("it started %+v", ls)
		}
		leave()

		if err := os.WriteFile(filepath.Join(h.data, "db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c = h.run("--data", h.data)
		c.says("started ")
		if err := c.ends(); err == nil {
			t.Error("the controller of a server that can't start ends well")
		}
		until(t, "the log to say why", 10*time.Second, func() bool { return strings.Contains(h.logged(), "cannot overwrite") })
	})
}
