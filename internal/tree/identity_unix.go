//go:build unix && !linux

// Systems without pidfds announce the numbers alone.

package tree

import (
	"os"

	"golang.org/x/sys/unix"
)

func identify() Proc { return identityOf(os.Getpid()) }

func identityOf(pid int) Proc {
	p := Proc{PID: pid}
	p.PGID, _ = unix.Getpgid(pid)
	p.SID, _ = unix.Getsid(pid)
	return p
}
