// Windows has no exec: the disguised process is a child, and this one waits.

package tree

import (
	"os"
	"os/exec"
)

func (p *proc) become(argv []string, as string) {
	cmd := exec.Command(self())
	cmd.Args = argv
	cmd.Env = append(os.Environ(), disguise+"="+as)
	cmd.Run()
	quit(0)
}

// passReady tells the parent early; the handle does not go further.
func (p *proc) passReady() string {
	p.ready.WriteString("ok")
	p.ready.Close()
	return "0"
}
