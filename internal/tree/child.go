// Starting the next process of a tree and waiting until it is set up, so that
// a program is in its shape when its leader announces itself.

package tree

import (
	"io"
	"os"
	"os/exec"
	"time"
)

// child says how to start one more process of the tree.
type child struct {
	prog     string        // sleep, unless told
	role     string        // what it calls itself
	args     []string      // further flags
	life     time.Duration // what is left of the parent's, unless told
	session  bool          // leads a session of its own
	group    bool          // leads a group of its own
	clearEnv bool          // starts with an empty environment
	env      []string      // added to the environment
	stdio    bool          // shares input, output and errors of the parent
	files    []*os.File    // further descriptors, 4 and up
}

// spawn starts a child and returns once it is set up.
func (p *proc) spawn(c child) *exec.Cmd {
	cmd, ready := p.launch(c)
	said, err := io.ReadAll(ready)
	ready.Close()
	if err != nil || string(said) != "ok" {
		p.fail("child %s is not set up: %q %v", c.role, said, err)
	}
	return cmd
}

// launch starts a child. What it returns reads "ok" once the child is set up,
// else the child's complaint or nothing.
func (p *proc) launch(c child) (*exec.Cmd, *os.File) {
	if c.prog == "" {
		c.prog = "sleep"
	}
	if c.life == 0 {
		c.life = p.left()
	}
	args := []string{prefix + c.prog, "-role", c.role, "-life", c.life.String()}
	if p.pids != "" {
		args = append(args, "-pids", p.pids)
	}
	cmd := exec.Command(self())
	r, w, err := os.Pipe()
	p.must(err)
	cmd.SysProcAttr = attributes(c)
	args = append(args, "-ready", shareReady(cmd, w))
	cmd.Args = append(append(cmd.Args, args...), c.args...)
	cmd.ExtraFiles = append(cmd.ExtraFiles, c.files...)
	if c.clearEnv {
		cmd.Env = []string{}
	} else {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, c.env...)
	if c.stdio {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	}
	p.must(cmd.Start())
	w.Close()
	return cmd, r
}
