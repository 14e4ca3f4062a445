// A chain of wrappers that forward no signal: ending one leaves what it
// wraps. Announces wrapper1 (the leader), wrapper2 and so on, then work.

package tree

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

func init() { register("wrapper", wrapper) }

func wrapper(p *proc) {
	depth := p.Int("depth", 1, "number of wrappers")
	level := p.Int("level", 1, "which of them this is")
	status := p.String("status", "pass", "pass the status of the work on, or hide it (exit 1)")
	p.parse() // what remains is the command to wrap, or nothing
	p.role = "wrapper" + strconv.Itoa(*level)
	p.announce()

	args := p.Args()
	switch {
	case *level < *depth:
		args = append(Command("wrapper", "-life", p.left().String(), "-pids", p.pids,
			"-depth", strconv.Itoa(*depth), "-level", strconv.Itoa(*level+1),
			"-status", *status, "--"), args...)
	case len(args) == 0:
		args = Command("sleep", "-role", "work", "-life", p.left().String(), "-pids", p.pids)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	p.must(cmd.Start())
	// Foreign work has no deadline of its own.
	time.AfterFunc(p.left()-100*time.Millisecond, func() { cmd.Process.Kill() })
	cmd.Wait()
	if *status == "hide" {
		quit(1)
	}
	quit(shellStatus(cmd.ProcessState))
}

// shellStatus is the code by which a shell would report an end.
func shellStatus(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}
