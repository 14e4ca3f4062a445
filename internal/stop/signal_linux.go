package stop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

// The choke point. Every signal custody sends to a tree is sent here, through
// an opened handle of a process that was proven a moment ago. No number ever
// reaches a system call.

// errRefused is matched by every refusal of our own.
var errRefused = errors.New("refused")

// send signals one proven member through its own handle.
func (r *run) send(m *contain.Member, sig syscall.Signal) error {
	err := r.allowed(m)
	if err == nil {
		err = m.Proc.Use(func(fd int) error {
			return unix.PidfdSendSignal(fd, sig, nil, 0)
		})
		if err == unix.ESRCH {
			err = os.ErrProcessDone
		}
	}
	r.note(Sent{PID: m.Row.PID, Signal: sig, Via: "handle", Finding: m.Finding, Err: err})
	return err
}

// allowed is the last gate: proven owned, a number that can be a process, and
// neither ourselves nor an ancestor of ours.
func (r *run) allowed(m *contain.Member) error {
	switch {
	case !m.Finding.MaySignal():
		return fmt.Errorf("%w: verdict %s: %s", errRefused, m.Finding.Verdict, m.Finding.Reason)
	case m.Proc.PID() <= 1:
		return fmt.Errorf("%w: pid %d", errRefused, m.Proc.PID())
	case r.ours[m.Proc.PID()]:
		return fmt.Errorf("%w: process %d is the one that is stopping the launch, or an ancestor of it", errRefused, m.Proc.PID())
	}
	return nil
}

// pidfdSignalProcessGroup is PIDFD_SIGNAL_PROCESS_GROUP (Linux 6.9): the
// signal goes to the process group that the handle's process leads or led,
// atomically against fork, and never to a group that recycled the number.
const pidfdSignalProcessGroup = 1 << 2

// groupSignal signals the group that p leads or led. The caller has proven who
// is in it.
func groupSignal(p *host.Process, sig syscall.Signal) error {
	return p.Use(func(fd int) error {
		return unix.PidfdSendSignal(fd, sig, nil, pidfdSignalProcessGroup)
	})
}

// sendGroup signals the leader's process group through the leader's durable
// handle. It reports whether the whole group was reached.
func (r *run) sendGroup(s *contain.Sighting, sig syscall.Signal) bool {
	lead := r.tree.Rec.Leader
	if lead == nil || lead.PID <= 1 || lead.PGID != lead.PID {
		return false
	}
	for _, m := range s.Members {
		if m.InGroup && r.allowed(m) != nil {
			return false // one of us is in the group: signal the others one by one
		}
	}
	p, err := host.Reopen(*lead)
	if errors.Is(err, host.ErrUnsupported) {
		return false
	}
	if err == nil {
		defer p.Close()
		err = groupSignal(p, sig)
	}
	if err == unix.EINVAL {
		return false // before Linux 6.9
	}
	for _, m := range s.Members {
		if m.InGroup {
			r.note(Sent{PID: m.Row.PID, Signal: sig, Via: "group", Finding: m.Finding, Err: err})
		}
	}
	return err == nil
}

// killCgroup kills everything in the launch's own cgroup (cgroup.kill, Linux
// 5.14). The path carries the launch's id and was compared with the recorded
// kernel id in this very look. It does not end a process whose main thread
// exited already; the handle does, so the members are signalled as well.
func (r *run) killCgroup(s *contain.Sighting) {
	c := r.tree.Rec.Cgroup
	inside := false
	for _, m := range s.Members {
		if r.allowed(m) != nil {
			return
		}
		for _, e := range m.Finding.Evidence {
			inside = inside || e.Fact == proof.Cgroup && e.Holds == proof.Yes
		}
	}
	if !inside {
		return
	}
	if id, err := host.CgroupDirID(c.Path); err != nil || c.ID != 0 && id != c.ID {
		return
	}
	os.WriteFile(filepath.Join(c.Path, "cgroup.kill"), []byte("1"), 0)
}

func (r *run) note(s Sent) {
	if s.Err == nil || !errors.Is(s.Err, os.ErrProcessDone) {
		r.rep.Sent = append(r.rep.Sent, s)
		if r.opt.Event != nil {
			r.opt.Event(s)
		}
	}
}

// EndChild kills a child of this process that was forked and could not be
// written down, and the group it leads: through the handle that its clone
// gave, which needs no descriptor, no record and no look. A process that is
// not our uncollected child is refused.
func EndChild(p *host.Process) error {
	err := p.Use(func(fd int) error {
		return unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	})
	if err == unix.ECHILD || p.PID() <= 1 {
		return fmt.Errorf("%w: process %d is no uncollected child of ours", errRefused, p.PID())
	}
	groupSignal(p, syscall.SIGKILL) // it may lead none
	return p.Use(func(fd int) error { return unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0) })
}
