//go:build unix

// Executing another program, or this one under another name, in place.

package tree

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// become replaces this process by itself with another argument list. The
// arguments that count go by the environment.
func (p *proc) become(argv []string, as string) {
	env := append(os.Environ(), disguise+"="+as)
	p.fail("exec: %v", syscall.Exec(self(), argv, env))
}

// passReady lets the next program in this process tell the parent.
func (p *proc) passReady() string {
	fd := int(p.ready.Fd())
	unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	return strconv.Itoa(fd)
}
