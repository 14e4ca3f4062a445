package stop

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/host"
)

// rush sends the KILL of a phase to the leader's group before anything else is
// looked at, where the whole tree is in it. The look that follows finds what
// it did not end; that is all the phase has to do then. begun is called before
// the signal. It reports whether the signal was sent.
func (r *run) rush(sig syscall.Signal, begun func()) bool {
	if sig != syscall.SIGKILL {
		return false // would be sent twice to who is still there
	}
	c := r.tree.Compact()
	if c == nil {
		return false
	}
	defer c.Leader.Close()
	for _, m := range c.Members {
		if !m.Finding.MaySignal() || m.Row.PID <= 1 || r.ours[m.Row.PID] {
			return false
		}
	}
	if len(c.Members) == 0 {
		return false
	}
	begun()
	r.left(len(c.Members))
	if err := groupSignal(c.Leader, sig); err != nil {
		return false
	}
	for _, m := range c.Members {
		r.note(Sent{PID: m.Row.PID, Signal: sig, Via: "group", Finding: m.Finding})
	}
	// Let them die undisturbed: a look at a thousand dying processes only
	// takes their time. The leader's handle closes when the last of them was
	// reaped, which may be late: the wait is short in any case.
	pause := time.Millisecond
	wait := 20*time.Millisecond + time.Duration(len(c.Members))*100*time.Microsecond
	for end := time.Now().Add(wait); time.Now().Before(end); pause = min(2*pause, 10*time.Millisecond) {
		p, err := host.Reopen(*r.tree.Rec.Leader)
		if errors.Is(err, os.ErrProcessDone) {
			break
		}
		if err == nil {
			p.Close()
		}
		time.Sleep(pause)
	}
	return true
}
