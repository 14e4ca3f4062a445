// How Windows starts a child apart from its parent and shares the pipe by
// which the child says that it is set up.

package tree

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

const detachedProcess = 0x8

func attributes(c child) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{}
	if c.session || c.group {
		attr.CreationFlags |= syscall.CREATE_NEW_PROCESS_GROUP
	}
	if c.session {
		attr.CreationFlags |= detachedProcess
	}
	return attr
}

func shareReady(cmd *exec.Cmd, w *os.File) string {
	h := syscall.Handle(w.Fd())
	syscall.SetHandleInformation(h, syscall.HANDLE_FLAG_INHERIT, syscall.HANDLE_FLAG_INHERIT)
	cmd.SysProcAttr.AdditionalInheritedHandles = []syscall.Handle{h}
	return strconv.FormatUint(uint64(h), 10)
}

func takeReady(fd uintptr) *os.File {
	syscall.SetHandleInformation(syscall.Handle(fd), syscall.HANDLE_FLAG_INHERIT, 0)
	return os.NewFile(fd, "ready")
}

func ownGroup() error { return nil }
