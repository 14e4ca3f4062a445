package main

// The tree of the demo. Its processes are this program once more, each in a
// role that its argument list names:
//
//	owner     owns the tree, until it is killed
//	leader    first process of the launch; starts the others
//	worker    ignores every signal that asks it to end
//	starter   leads a session of its own, starts what escapes, and is gone
//	escapee   a worker that escaped: double fork, setsid, empty environment
//
// The stranger has the escapee's argument list to the last letter. Each ends by
// itself after demoLife, whatever happens to the demo.

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/custody-project/custody"
)

const (
	demoRole  = "demo-role"
	demoLife  = 20 * time.Second
	demoGrace = 500 * time.Millisecond
)

// demoPhases is the stop plan of the demo's tree: short, and it never needs
// more, because what ignores TERM can't ignore KILL.
func demoPhases() []custody.Phase {
	return []custody.Phase{{Signal: syscall.SIGTERM, Wait: demoGrace}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
}

// playDemoRole plays a role of the demo, and does not return, if the argument
// list asks for one.
func playDemoRole() {
	if len(os.Args) != 4 || os.Args[1] != demoRole {
		return
	}
	time.AfterFunc(demoLife, func() { os.Exit(3) })
	base := os.Args[3]
	var err error
	switch os.Args[2] {
	case "owner":
		err = demoOwner(base)
	case "leader":
		err = demoLeader(base)
	case "starter":
		err = demoEscape("escapee", base).Start()
	case "worker", "escapee":
		err = demoDeaf(base)
	default:
		err = fmt.Errorf("no role %q", os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "custody: demo: "+os.Args[2]+": "+err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// demoEscape is this program in a role, in a session of its own and with an
// empty environment.
func demoEscape(role, base string) *exec.Cmd {
	c := exec.Command(demoArgs(role, base)[0], demoArgs(role, base)[1:]...)
	c.Env = []string{}
	c.SysProcAttr = ownSession()
	return c
}

func demoArgs(role, base string) []string {
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	return []string{exe, demoRole, role, base}
}

// demoOwner owns the tree until it is killed, or until the demo is gone.
func demoOwner(base string) error {
	o, err := custody.Open(context.Background(), "demo", &custody.Options{Dir: demoState(base)})
	if err != nil {
		return err
	}
	args := demoArgs("leader", base)
	cmd := o.Command(args[0], args[1:]...)
	cmd.Spec = custody.Spec{Name: "tree", Kept: true, Phases: demoPhases(), TempDirs: []string{"PROFILE"}}
	if err := cmd.Start(); err != nil {
		o.Close()
		return err
	}
	io.Copy(io.Discard, os.Stdin) // ends with the demo, which can't clean up any more
	if err := o.Close(); err != nil {
		return err
	}
	return os.RemoveAll(base)
}

// demoLeader starts the rest of the tree and puts something into its
// directory.
func demoLeader(base string) error {
	for range 2 {
		args := demoArgs("worker", base)
		if err := exec.Command(args[0], args[1:]...).Start(); err != nil {
			return err
		}
	}
	if err := demoEscape("starter", base).Run(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("PROFILE"), "cookies"), []byte("of the demo\n"), 0o600); err != nil {
		return err
	}
	if err := demoReady(base); err != nil {
		return err
	}
	select {}
}

// demoDeaf notes each signal that asks it to end, and does not end.
func demoDeaf(base string) error {
	asked := make(chan os.Signal, 8)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	if err := demoReady(base); err != nil {
		return err
	}
	if fi, err := os.Stdin.Stat(); err == nil && fi.Mode()&os.ModeNamedPipe != 0 {
		go demoGuard(base)
	}
	for range asked {
		if err := os.WriteFile(demoNote(base, "asked", os.Getpid()), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// demoGuard is the stranger's part: when the demo is gone it deletes what the
// demo can't any more.
func demoGuard(base string) {
	io.Copy(io.Discard, os.Stdin)
	d := demo{base: base}
	if err := d.cleanUp(); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// demoReady says that this process has taken its shape.
func demoReady(base string) error {
	return os.WriteFile(demoNote(base, "ready", os.Getpid()), nil, 0o600)
}

// demoNoted reports whether a process left a note: that it is ready, or that a
// signal asked it to end.
func demoNoted(base, what string, pid int) bool {
	_, err := os.Stat(demoNote(base, what, pid))
	return err == nil
}

func demoNote(base, what string, pid int) string {
	return filepath.Join(base, "notes", what+"-"+strconv.Itoa(pid))
}

func demoState(base string) string { return filepath.Join(base, "state") }
