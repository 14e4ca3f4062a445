//go:build linux

// Programs that stand around an owner: somebody who adopts its orphans, and a
// member that became another user's.

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopterProgram LOG COMMAND... starts the command, adopts what it orphans,
// collects nothing, and writes down each signal it gets. It ends with its
// input, which the command does not share.
func adopterProgram(args []string) {
	got := make(chan os.Signal, 64)
	signal.Notify(got)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	c := exec.Command(args[1], args[2:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	// The command talks through our input and output; our own end is told by
	// a pipe that only the test holds.
	c.Stdin = os.Stdin
	if err := c.Start(); err != nil {
		panic(err)
	}
	life := os.NewFile(3, "life")
	go func() {
		life.Read(make([]byte, 1))
		os.Exit(0)
	}()
	for s := range got {
		if s == unix.SIGURG || s == unix.SIGCHLD {
			continue // the runtime's own, and the children it does not collect
		}
		f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(f, s)
		f.Close()
	}
}

// asRootProgram COMMAND... becomes root for good, which needs the set-uid bit,
// and then the command.
func asRootProgram(args []string) {
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "become root:", err)
		os.Exit(1)
	}
	err := syscall.Exec(args[0], args, os.Environ())
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
