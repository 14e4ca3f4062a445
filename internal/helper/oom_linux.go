package helper

import (
	"os"
	"syscall"

	"github.com/custody-project/custody/internal/host"
)

// victims counts whom the kernel killed for lack of memory in the leader's
// memory cgroup, from before the leader began. The leader's own end does not
// tell: it is a KILL like any other.
type victims struct {
	in     host.MemoryCgroup
	before uint64
	known  bool
}

func countVictims(in host.MemoryCgroup) victims {
	n, err := in.OOMKills()
	return victims{in, n, err == nil}
}

// beforeStart counts in the keeper's cgroup, where the leader is born.
func beforeStart() victims { return countVictims(host.MemoryCgroupOf(os.Getpid())) }

// of takes the leader's, if its own attributes put it elsewhere.
func (v victims) of(leader int) victims {
	if in := host.MemoryCgroupOf(leader); in != v.in && in != "" {
		return countVictims(in)
	}
	return v
}

// more reports whether a leader that ended so may be a victim: by KILL, with
// more victims counted than before. Others in the same cgroup count as well.
func (v victims) more(status uint32) bool {
	if ws := syscall.WaitStatus(status); !v.known || !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		return false
	}
	now, err := v.in.OOMKills()
	return err == nil && now > v.before
}
