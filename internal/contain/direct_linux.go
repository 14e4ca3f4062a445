package contain

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/custody-project/custody/internal/host"
)

// Asked is what a caller's own attributes decide about containment.
type Asked struct {
	UID    int  // the real uid the command gets, -1 for ours
	Group  bool // it joins a group that is not its own
	Cgroup bool // it starts in a cgroup of the caller's
}

// AskedOf reads it.
func AskedOf(a *syscall.SysProcAttr) Asked {
	asked := Asked{UID: -1}
	if a == nil {
		return asked
	}
	if a.Credential != nil {
		asked.UID = int(a.Credential.Uid)
	}
	asked.Group = a.Setpgid && a.Pgid != 0
	asked.Cgroup = a.UseCgroupFD
	return asked
}

// Direct prepares a command that the owner forks itself.
type Direct struct {
	Level  string
	cgroup *os.File
	pidfd  int
}

// PrepareDirect sets the command's attributes: a session of its own unless the
// caller asked for a group, the cgroup if there is one, and a pidfd from
// birth. What the caller set stays.
func PrepareDirect(c *exec.Cmd, cgroup string) (*Direct, error) {
	d := &Direct{pidfd: -1}
	attr := &syscall.SysProcAttr{}
	if c.SysProcAttr != nil {
		copied := *c.SysProcAttr
		attr = &copied
	}
	if attr.PidFD != nil {
		return nil, fmt.Errorf("SysProcAttr.PidFD: custody needs it; use the launch's handle")
	}
	attr.PidFD = &d.pidfd
	switch {
	case attr.Setpgid && attr.Pgid != 0:
		d.Level = Process // somebody else's group: only the leader is told apart
	case attr.Setpgid || attr.Setsid || attr.Foreground:
		d.Level = Group
	default:
		attr.Setsid = true
		d.Level = Group
	}
	if cgroup != "" && !attr.UseCgroupFD {
		f, err := os.Open(cgroup)
		if err != nil {
			return nil, fmt.Errorf("open cgroup: %w", err)
		}
		d.cgroup = f
		attr.UseCgroupFD, attr.CgroupFD = true, int(f.Fd())
		d.Level = CgroupL
	}
	c.SysProcAttr = attr
	return d, nil
}

// Close closes what was opened for the start.
func (d *Direct) Close() {
	if d.cgroup != nil {
		d.cgroup.Close()
	}
}

// Process returns the handle of the started command.
func (d *Direct) Process(pid int) (*host.Process, error) {
	if d.pidfd < 0 {
		return host.Open(pid) // our unreaped child: the number is its own
	}
	return host.FromFD(d.pidfd, pid), nil
}
