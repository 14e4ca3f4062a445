package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/custody-project/custody"
)

// The roles that bench plays as processes of its own, so that each can be
// killed, and each can have other mechanisms switched off.

// ask is what a role is told: one JSON value on its standard input, which
// stays open. tell is what it answers, on its standard output.
type ask struct {
	Dir     string
	Tiny    string
	Members int  // of each launch
	Kept    bool // the launches are kept
	Count   int  // launches
	Rounds  int
}

type tell struct {
	Err     string
	Level   string
	PIDs    []int // of the leaders
	Base    []time.Duration
	Custody []time.Duration
}

// role is a running one.
type role struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
}

// play starts a role. without switches mechanisms off.
func play(name, without string, a ask) (*role, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), roleEnv+"="+name, "CUSTODY_DEBUG_WITHOUT="+without)
	c.Stderr = os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.Stdin = r
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	r.Close()
	if err != nil {
		w.Close()
		return nil, err
	}
	p := &role{cmd: c, in: w, out: bufio.NewReader(out)}
	return p, json.NewEncoder(w).Encode(a)
}

func (r *role) answer() (tell, error) {
	var t tell
	if err := json.NewDecoder(r.out).Decode(&t); err != nil {
		return t, fmt.Errorf("role answered nothing: %w", err)
	}
	if t.Err != "" {
		return t, fmt.Errorf("role: %s", t.Err)
	}
	return t, nil
}

// end closes the role's input, at which it ends in order.
func (r *role) end() error {
	r.in.Close()
	return r.cmd.Wait()
}

// kill ends it the hard way.
func (r *role) kill() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
	r.in.Close()
}

func playRole(name string) {
	os.Unsetenv(roleEnv)
	var a ask
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	var t tell
	done := func() {}
	if err == nil {
		switch name {
		case "start":
			t, err = startRole(a)
		case "owner":
			t, done, err = ownerRole(a)
		case "nothing":
		default:
			err = fmt.Errorf("no role %q", name)
		}
	}
	if err != nil {
		t.Err = err.Error()
	}
	json.NewEncoder(os.Stdout).Encode(t)
	in.ReadByte() // until the bench lets us go
	done()
	os.Exit(0)
}

var killNow = []custody.Phase{{Signal: syscall.SIGKILL, Wait: 5 * time.Second}}

// startRole starts commands bare and in custody, in turns.
func startRole(a ask) (t tell, err error) {
	ctx := context.Background()
	o, err := custody.Open(ctx, "bench", &custody.Options{Dir: a.Dir})
	if err != nil {
		return t, err
	}
	defer o.Close()
	bare := func() error {
		c := exec.Command(a.Tiny, "1", "60")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		from := time.Now()
		if err := c.Start(); err != nil {
			return err
		}
		t.Base = append(t.Base, time.Since(from))
		c.Process.Kill()
		c.Wait()
		return nil
	}
	owned := func() error {
		c := o.Command(a.Tiny, "1", "60")
		c.Kept, c.Phases = a.Kept, killNow
		from := time.Now()
		if err := c.Start(); err != nil {
			return err
		}
		t.Custody = append(t.Custody, time.Since(from))
		l := c.Launch()
		t.Level = string(l.Level())
		if _, err := l.Stop(ctx); err != nil {
			return err
		}
		c.Wait()
		return nil
	}
	for i := range a.Rounds + 5 {
		if i == 5 { // the first ones warm up
			t.Base, t.Custody = nil, nil
		}
		first, second := bare, owned
		if i%2 == 1 {
			first, second = owned, bare
		}
		if err := first(); err != nil {
			return t, err
		}
		if err := second(); err != nil {
			return t, err
		}
	}
	return t, nil
}

// ownerRole starts launches and waits to be killed.
func ownerRole(a ask) (t tell, done func(), err error) {
	done = func() {}
	ctx := context.Background()
	o, err := custody.Open(ctx, "bench", &custody.Options{Dir: a.Dir, WithoutSweep: true})
	if err != nil {
		return t, done, err
	}
	done = func() { o.Close() }
	for range a.Count {
		args := []string{fmt.Sprint(a.Members), "120"}
		c := o.Command(a.Tiny, args...)
		c.Kept, c.Phases = a.Kept, killNow
		r, w, err := os.Pipe()
		if err != nil {
			return t, done, err
		}
		c.Stdout = w
		err = c.Start()
		w.Close()
		if err == nil {
			_, err = r.Read(make([]byte, 1)) // all its members are there
		}
		r.Close()
		if err != nil {
			return t, done, err
		}
		t.PIDs = append(t.PIDs, c.Launch().PID())
		t.Level = string(c.Launch().Level())
	}
	return t, done, nil
}

// commandLine reads the command line of one of our own descendants.
func commandLine(pid int) string {
	b, _ := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cmdline"))
	return strings.ReplaceAll(strings.TrimRight(string(b), "\x00"), "\x00", " ")
}
