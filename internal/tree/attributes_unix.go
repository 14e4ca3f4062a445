//go:build unix

// How Unix starts a child apart from its parent and shares the pipe by which
// the child says that it is set up.

package tree

import (
	"os"
	"os/exec"
	"syscall"
)

func attributes(c child) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: c.session, Setpgid: c.group && !c.session}
}

// shareReady gives the child the write end as its descriptor 3.
func shareReady(cmd *exec.Cmd, w *os.File) string {
	cmd.ExtraFiles = []*os.File{w}
	return "3"
}

// takeReady keeps the descriptor from the children of this process, whose
// copies would hold up the parent.
func takeReady(fd uintptr) *os.File {
	syscall.CloseOnExec(int(fd))
	return os.NewFile(fd, "ready")
}

// ownGroup makes this process the leader of a group.
func ownGroup() error {
	if syscall.Getpgrp() == os.Getpid() {
		return nil
	}
	return syscall.Setpgid(0, 0)
}
