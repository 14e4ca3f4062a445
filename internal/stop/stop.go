// Package stop ends trees. It runs the phases of a stop plan over the members
// that package contain proves, and it is the only package that asks for a
// signal (signal_linux.go).
//
// The life of a stop, on one screen: look, signal, wait, look again; the next
// phase if something lives; at the end the truth, whatever it is.
package stop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// Phase is one step of the plan: a signal, and how long to wait after it.
type Phase struct {
	Signal syscall.Signal
	Wait   time.Duration
}

// Outcome of a stop.
type Outcome string

const (
	Gone       Outcome = "gone"       // no proven member lives, and everything could be asked
	Incomplete Outcome = "incomplete" // something lives, or could not be told
	Foreign    Outcome = "foreign"    // not ours to touch
)

// Sent is one signal that was sent, or refused.
type Sent struct {
	PID     int
	Signal  syscall.Signal
	Via     string // "handle", "group", "cgroup" or "engine"
	Finding proof.Finding
	Err     error // set if it was refused, by us or by the kernel
}

// Survivor is a process that outlived the plan, and why.
type Survivor struct {
	PID int
	Why string
}

// Report is the result of a stop.
type Report struct {
	Outcome   Outcome
	Verdict   proof.Verdict // of the launch at the end
	Reason    string
	Sent      []Sent
	Survivors []Survivor
}

// Options of Run. The zero value is a plain stop from the first phase.
type Options struct {
	From  int             // phases already begun by an earlier stop of this launch
	Begun func(n int)     // called before phase n (from 0) sends its signal
	Event func(Sent)      // called for each signal and refusal
	Told  func(Progress)  // called when a phase begins and when fewer are left
	Hurry <-chan struct{} // each receive cuts the wait of the current phase short
	Now   <-chan struct{} // closed: straight to KILL, whatever the plan says
}

// Progress is how far a stop has come.
type Progress struct {
	Phase, Phases int // from 1
	Signal        syscall.Signal
	Wait          time.Duration
	Left          int // members seen that have not ended
}

// Leader sends one signal to the leader alone, if it is proven to live.
func Leader(tree *contain.Tree, sig syscall.Signal) error {
	return once(tree, func(r *run, s *contain.Sighting) error {
		for _, m := range s.Members {
			if lead := tree.Rec.Leader; lead != nil && m.Row.PID == lead.PID {
				return r.send(m, sig)
			}
		}
		return os.ErrProcessDone
	})
}

// Group sends one signal to the leader's process group.
func Group(tree *contain.Tree, sig syscall.Signal) error {
	return once(tree, func(r *run, s *contain.Sighting) error {
		var in []*contain.Member
		for _, m := range s.Members {
			if m.InGroup {
				in = append(in, m)
			}
		}
		if len(in) == 0 {
			return os.ErrProcessDone
		}
		if !r.sendGroup(s, sig) {
			r.signalEach(in, sig)
		}
		return nil
	})
}

// KillKeeper kills the launch's keeper, if it is proven to be the recorded
// one.
func KillKeeper(tree *contain.Tree) error {
	return keeper(tree, func(r *run, m *contain.Member) error { return r.send(m, syscall.SIGKILL) })
}

// WakeKeeper continues the launch's keeper if it was stopped by a signal.
func WakeKeeper(tree *contain.Tree) error {
	return keeper(tree, func(r *run, m *contain.Member) error {
		r.wake([]*contain.Member{m})
		return nil
	})
}

func keeper(tree *contain.Tree, f func(*run, *contain.Member) error) error {
	m, err := tree.Keeper()
	if err != nil {
		return err
	}
	defer m.Proc.Close()
	r := &run{tree: tree, rep: &Report{}, denied: map[int]error{}}
	if r.ours, err = host.Ancestors(); err != nil {
		return err
	}
	return f(r, m)
}

// once looks once and lets f signal.
func once(tree *contain.Tree, f func(*run, *contain.Sighting) error) error {
	r := &run{tree: tree, rep: &Report{}, denied: map[int]error{}}
	var err error
	if r.ours, err = host.Ancestors(); err != nil {
		return err
	}
	s, err := tree.Look(false)
	if err != nil {
		return err
	}
	defer s.Close()
	return f(r, s)
}

type run struct {
	tree   *contain.Tree
	opt    Options
	rep    *Report
	ours   map[int]bool // ourselves and our ancestors: never signalled
	denied map[int]error
	at     Progress
}

// left tells how many members are left in the phase.
func (r *run) left(n int) {
	if r.opt.Told != nil && n != r.at.Left {
		r.at.Left = n
		r.opt.Told(r.at)
	}
}

// Run stops the tree: each phase at most once, KILL repeated until nothing
// proven is left or its time is over. It ends early when the tree is gone or
// ctx is done; then the report says what lives.
func Run(ctx context.Context, tree *contain.Tree, phases []Phase, opt Options) Report {
	r := &run{tree: tree, opt: opt, rep: &Report{}, denied: map[int]error{}}
	var err error
	if r.ours, err = host.Ancestors(); err != nil {
		r.rep.Outcome, r.rep.Reason = Incomplete, fmt.Sprintf("can't tell our own ancestors: %v", err)
		return *r.rep
	}
	if tree.Rec.Container != nil {
		r.runContainer(ctx, phases)
		return *r.rep
	}
	killed, over := false, false
	do := func(n int, ph Phase) {
		r.at = Progress{Phase: n + 1, Phases: max(n+1, len(phases)), Signal: ph.Signal, Wait: ph.Wait}
		killed = killed || ph.Signal == syscall.SIGKILL
		over = r.phase(ctx, n, ph) || ctx.Err() != nil
	}
	for n := min(max(opt.From, 0), len(phases)); n < len(phases) && !over; n++ {
		if phases[n].Signal == syscall.SIGKILL || !r.now() {
			do(n, phases[n])
		}
	}
	if r.now() && !killed && !over {
		do(len(phases), Phase{syscall.SIGKILL, killWait})
	}
	r.finish(ctx)
	return *r.rep
}

// killWait is how long a KILL that no plan asked for is waited for.
const killWait = 5 * time.Second

// now reports whether there is no patience left for anything but KILL.
func (r *run) now() bool {
	select {
	case <-r.opt.Now:
		return true
	default:
		return false
	}
}

// phase runs one phase and reports whether the stop is over.
func (r *run) phase(ctx context.Context, n int, ph Phase) bool {
	begun := sync.OnceFunc(func() {
		if r.opt.Begun != nil {
			r.opt.Begun(n)
		}
		crash.Here("phase-begun")
	})
	r.rush(ph.Signal, begun)
	s := r.sight(ctx)
	if s == nil {
		return true
	}
	defer func() { s.Close() }()
	end := time.Now().Add(ph.Wait)
	if hidden(s) {
		if ph.Signal != syscall.SIGKILL {
			return false // what can't be seen can't be asked; the KILL may still catch it
		}
		if s = r.chase(ctx, s, end); s == nil {
			s = &contain.Sighting{}
			return true
		}
	}
	if s.Verdict != proof.Owned {
		return true
	}
	r.mark(s)
	begun()
	r.left(len(s.Members))
	began := host.StartNow()
	r.signalAll(s, ph.Signal)
	crash.Here("phase-signalled")
	for round := 1; ; round++ {
		if !r.await(ctx, s.Members, ph.Signal, end) {
			crash.Here("phase-over")
			return false // time is over
		}
		// Everything seen has ended; is there something that was not seen?
		s.Close()
		if s = r.sight(ctx); s != nil && hidden(s) {
			if ph.Signal != syscall.SIGKILL {
				return false
			}
			s = r.chase(ctx, s, end)
		}
		if s == nil || s.Verdict != proof.Owned {
			if s == nil {
				s = &contain.Sighting{}
			}
			return true
		}
		switch {
		case ph.Signal == syscall.SIGKILL:
			if round > 1 {
				s = r.freeze(ctx, s)
			}
			r.signalAll(s, ph.Signal)
		default:
			// What was there before the signal and was missed gets it now.
			// What was started since may be doing the leaving's work.
			var missed []*contain.Member
			for _, m := range s.Members {
				if m.Row.Start < began {
					missed = append(missed, m)
				}
			}
			r.signalEach(missed, ph.Signal)
		}
	}
}

// mark gives the brand to the members of a launch whose owner died between fork
// and mark: what they fork from now on, and leave behind when they end, would be
// known by nothing.
func (r *run) mark(s *contain.Sighting) {
	rec := r.tree.Rec
	if rec.Leader != nil || rec.Brand == 0 {
		return
	}
	for _, m := range s.Members {
		if m.Finding.MaySignal() && host.Mark(m.Proc, host.Brand(rec.Brand)) == nil {
			host.MarkBelow(m.Proc, host.Brand(rec.Brand))
		}
	}
}

// hidden reports whether something may live that could not be seen.
func hidden(s *contain.Sighting) bool { return s.Verdict == proof.Unsure && !s.Copies }

// chase looks again and again for what hides, as long as the phase lasts: a
// process that forks and ends faster than it can be opened is caught by chance.
func (r *run) chase(ctx context.Context, s *contain.Sighting, end time.Time) *contain.Sighting {
	for s != nil && hidden(s) && time.Now().Before(end) && ctx.Err() == nil {
		s.Close()
		s = r.sight(ctx)
	}
	return s
}

// sight looks until it can tell: a passing failure (too many open files, a
// hidden table) is not an answer. nil when it can't be told in time.
func (r *run) sight(ctx context.Context) *contain.Sighting {
	end := time.Now().Add(2 * time.Second)
	pause := time.Millisecond
	for {
		s, err := r.tree.Look(true)
		if err != nil {
			r.rep.Reason = err.Error()
			return nil
		}
		patience := end
		if len(s.Suspects) > 0 {
			patience = end.Add(-1800 * time.Millisecond)
		}
		if s.Verdict != proof.Unsure || time.Now().After(patience) || ctx.Err() != nil {
			return s
		}
		s.Close()
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// await waits until every one of the members ended. It returns false when the
// time is over. A stopped member is continued after a catchable signal, so
// that it sees the signal.
func (r *run) await(ctx context.Context, ms []*contain.Member, sig syscall.Signal, end time.Time) bool {
	const tick = 25 * time.Millisecond
	next := time.Now()
	left := append([]*contain.Member{}, ms...)
	for {
		for len(left) > 0 {
			if gone, err := left[0].Proc.Exited(); err != nil || !gone {
				break
			}
			left = left[1:]
		}
		if len(left) == 0 {
			return true
		}
		now := time.Now()
		if ctx.Err() != nil || !now.Before(end) {
			return false
		}
		select {
		case <-r.opt.Hurry:
			return false
		case <-r.opt.Now:
			if sig != syscall.SIGKILL {
				return false
			}
		default:
		}
		if !now.Before(next) {
			left = slices.DeleteFunc(left, func(m *contain.Member) bool {
				gone, err := m.Proc.Exited()
				return err == nil && gone
			})
			r.left(len(left))
			if sig != syscall.SIGKILL {
				r.wake(left)
			}
			next = now.Add(tick)
			continue
		}
		host.PollExit([]*host.Process{left[0].Proc}, min(tick, time.Until(end)))
	}
}

// wake continues the members that are stopped.
func (r *run) wake(ms []*contain.Member) {
	for _, m := range ms {
		if row, err := m.Proc.Stat(); err == nil && (row.State == 'T' || row.State == 't') {
			r.send(m, sigCont)
		}
	}
}

// freeze stops every member to a fixed point, so that a tree that forks faster
// than it is killed holds still for the KILL. Rounds are bounded; the group
// signal and cgroup.kill are atomic against fork and need no such help.
func (r *run) freeze(ctx context.Context, s *contain.Sighting) *contain.Sighting {
	held := map[int]bool{}
	for range 20 {
		fresh := false
		for _, m := range s.Members {
			if !held[m.Row.PID] {
				held[m.Row.PID] = true
				fresh = true
				r.send(m, sigStop)
			}
		}
		if !fresh || ctx.Err() != nil {
			break
		}
		t, err := r.tree.Look(true)
		if err != nil || t.Verdict != proof.Owned {
			break
		}
		s.Close()
		s = t
	}
	return s
}

// signalAll sends sig once to every member: through the leader's group and the
// cgroup where that is atomic, through each one's own handle elsewhere.
func (r *run) signalAll(s *contain.Sighting, sig syscall.Signal) {
	var each []*contain.Member
	inGroup := 0
	for _, m := range s.Members {
		if m.InGroup {
			inGroup++
		}
	}
	byGroup := inGroup > 0 && r.sendGroup(s, sig)
	if sig == syscall.SIGKILL && r.tree.Rec.Cgroup != nil {
		r.killCgroup(s)
	}
	for _, m := range s.Members {
		if !m.InGroup || !byGroup {
			each = append(each, m)
		}
	}
	r.signalEach(each, sig)
	if sig != syscall.SIGKILL {
		return // any other signal twice would do harm
	}
	// Whoever is still there was not reached by group or cgroup, and its own
	// handle tells why.
	if !r.await(context.Background(), s.Members, sig, time.Now().Add(100*time.Millisecond)) {
		for _, m := range s.Members {
			if gone, err := m.Proc.Exited(); err != nil || !gone {
				r.signalEach([]*contain.Member{m}, sig)
			}
		}
	}
}

func (r *run) signalEach(ms []*contain.Member, sig syscall.Signal) {
	for _, m := range ms {
		if err := r.send(m, sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			r.denied[m.Row.PID] = err
		}
	}
}

// finish takes the last look and tells what is left.
func (r *run) finish(ctx context.Context) {
	s := r.sight(context.WithoutCancel(ctx))
	if s == nil {
		r.rep.Outcome = Incomplete
		return
	}
	defer s.Close()
	r.rep.Verdict, r.rep.Reason = s.Verdict, s.Reason
	switch s.Verdict {
	case proof.Gone:
		r.rep.Outcome = Gone
		return
	case proof.Foreign:
		r.rep.Outcome = Foreign
		return
	}
	r.rep.Outcome = Incomplete
	for _, m := range s.Members {
		r.rep.Survivors = append(r.rep.Survivors, Survivor{m.Row.PID, r.why(m)})
	}
	for _, p := range s.Suspects {
		r.rep.Survivors = append(r.rep.Survivors, Survivor{p.PID, "unsure, not signalled: " + p.Finding.Reason})
	}
}

func (r *run) why(m *contain.Member) string {
	if err := r.denied[m.Row.PID]; err != nil {
		return fmt.Sprintf("may not be signalled: %v", err)
	}
	row, err := m.Proc.Stat()
	if err != nil {
		return fmt.Sprintf("still alive: %v", err)
	}
	if w, stuck := m.Proc.Stuck(); stuck && w != "" {
		return fmt.Sprintf("still alive: state D, uninterruptible in %s", w)
	} else if stuck {
		return "still alive: state D, uninterruptible"
	}
	if row.State == 'Z' {
		return "still alive: state Z, its main thread ended but others work on"
	}
	return fmt.Sprintf("still alive: state %c", row.State)
}
