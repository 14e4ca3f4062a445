package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/helper"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// Launch is one started tree. Its methods may be called from several
// goroutines.
type Launch struct {
	o      *Owner
	rec    *ledger.Record
	spec   Spec
	pid    int
	proc   *host.Process  // the leader; nil if it ended before we could look
	cmd    *exec.Cmd      // a direct launch that we wait for
	keeper *helper.Keeper // a kept launch

	exited  chan struct{} // closed when the leader has ended and its status is known
	state   *os.ProcessState
	waitErr error
	gone    chan struct{} // closed when the tree is proven gone and everything is freed

	released  atomic.Bool
	canceled  atomic.Bool
	cancelErr atomic.Pointer[error]

	ctx         context.Context // done when the launch is let go of
	cancelTasks context.CancelFunc

	mu      sync.Mutex
	current *stopping // the stop in progress
	result  *StopResult

	onStopped func(syscall.Signal) // job control
	stoppedBy syscall.Signal       // told before somebody asked
}

// stopping is one stop that any number of callers wait for.
type stopping struct {
	done  chan struct{}
	hurry chan struct{}
	res   StopResult
}

// ID returns the launch's id.
func (l *Launch) ID() ID { return l.rec.ID }

// Name returns the launch's name, if it has one.
func (l *Launch) Name() string { return l.rec.Name }

// PID returns the leader's pid: good for showing, not for signalling.
func (l *Launch) PID() int { return l.pid }

// Level returns the containment that was really achieved.
func (l *Launch) Level() Level { return Level(l.rec.Level) }

// Dirs returns the directories the launch owns: those of TempDirs first.
func (l *Launch) Dirs() []string {
	dirs := make([]string, 0, len(l.rec.Assets))
	for _, a := range l.rec.Assets {
		dirs = append(dirs, asset.Inside(a))
	}
	return dirs
}

// Exited is closed when the leader has ended.
func (l *Launch) Exited() <-chan struct{} { return l.exited }

// Gone is closed when the whole tree is proven gone and what it owned is
// freed.
func (l *Launch) Gone() <-chan struct{} { return l.gone }

// Result returns the result of the last stop, false before one has ended.
func (l *Launch) Result() (StopResult, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.result == nil {
		return StopResult{}, false
	}
	return *l.result, true
}

// OnStopped registers a function that is called when the leader was stopped by
// a signal (job control). Only launches on a terminal report it.
func (l *Launch) OnStopped(f func(syscall.Signal)) {
	l.mu.Lock()
	l.onStopped = f
	early := l.stoppedBy
	l.mu.Unlock()
	if early != 0 {
		f(early)
	}
}

// Stop ends the tree by its plan: the hook, then each phase once, until no
// proven member lives; then it frees what the launch owned. Any number of
// callers share one stop and its result; ctx bounds how long this caller
// waits, not the stop.
//
// The error matches ErrIncomplete if something lives or could not be told, or
// is the context's.
func (l *Launch) Stop(ctx context.Context) (StopResult, error) {
	return l.await(ctx, l.stopLater(nil))
}

// Kill is Stop with KILL as the only phase, and without the hook.
func (l *Launch) Kill(ctx context.Context) (StopResult, error) {
	l.hurry()
	return l.await(ctx, l.stopLater([]stop.Phase{{Signal: syscall.SIGKILL, Wait: 5 * time.Second}}))
}

// StopWith is Stop with another plan.
func (l *Launch) StopWith(ctx context.Context, phases []Phase) (StopResult, error) {
	ps := make([]stop.Phase, len(phases))
	for i, p := range phases {
		ps[i] = stop.Phase(p)
	}
	return l.await(ctx, l.stopLater(ps))
}

// Hurry cuts the waiting of the stop phase in progress short.
func (l *Launch) Hurry() { l.hurry() }

func (l *Launch) await(ctx context.Context, s *stopping) (StopResult, error) {
	select {
	case <-s.done:
	case <-ctx.Done():
		select {
		case <-s.done:
		default:
			return StopResult{ID: l.ID(), Name: l.Name(), Outcome: string(stop.Incomplete), Reason: "the stop goes on"},
				fmt.Errorf("stop launch %s: %w", l.ID().Short(), ctx.Err())
		}
	}
	if s.res.Outcome != string(stop.Gone) {
		return s.res, &IncompleteError{Launch: l.ID(), Result: s.res}
	}
	return s.res, nil
}

// stopLater begins a stop, or joins the one in progress.
func (l *Launch) stopLater(phases []stop.Phase) *stopping {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil {
		return l.current
	}
	s := &stopping{done: make(chan struct{}), hurry: make(chan struct{}, 8)}
	select {
	case <-l.gone: // nothing to stop any more
		s.res = *l.result
		close(s.done)
		return s
	default:
	}
	l.current = s
	l.o.tasks.Go(func() { l.runStop(s, phases) })
	return s
}

func (l *Launch) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil {
		select {
		case l.current.hurry <- struct{}{}:
		default:
		}
	}
	if l.keeper != nil {
		l.keeper.Hurry() // it may be the one that stops the tree; if it is dead it is not
	}
}

func (l *Launch) runStop(s *stopping, phases []stop.Phase) {
	if phases == nil {
		l.sayGoodbye()
	}
	res := sweep.End(context.Background(), l.o.dir, l.rec.ID, l.o.here, sweep.Options{
		Phases: phases, Hurry: s.hurry, Known: l.rec,
		Event: func(sent stop.Sent) { l.o.event(sentEvent(l.rec.ID, l.rec.Name, sent)) },
	})
	s.res = stopResult(res)
	l.finished(s.res)
	l.mu.Lock()
	l.current = nil
	l.mu.Unlock()
	close(s.done)
}

// sayGoodbye runs the hook, if the leader is still there to hear it.
func (l *Launch) sayGoodbye() {
	if l.spec.Hook == nil {
		return
	}
	select {
	case <-l.exited:
		return
	default:
	}
	timeout := l.spec.HookTimeout
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- l.spec.Hook(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			l.o.event(Event{Kind: HookFailed, Launch: l.rec.ID, Name: l.rec.Name, Err: err})
		}
	case <-ctx.Done():
		l.o.event(Event{Kind: HookFailed, Launch: l.rec.ID, Name: l.rec.Name, Err: ctx.Err()})
	}
}

// finished takes note of a stop's result.
func (l *Launch) finished(res StopResult) {
	l.mu.Lock()
	if l.result == nil || l.result.Outcome != string(stop.Gone) {
		l.result = &res
	}
	first := false
	if res.Outcome == string(stop.Gone) {
		select {
		case <-l.gone:
		default:
			first = true
			close(l.gone)
		}
	}
	l.mu.Unlock()
	kind := LaunchIncomplete
	if first {
		kind = LaunchGone
		l.o.mu.Lock()
		delete(l.o.launches, l.rec.ID)
		l.o.mu.Unlock()
		l.letGo()
	}
	if first || res.Outcome != string(stop.Gone) {
		l.o.event(Event{Kind: kind, Launch: l.rec.ID, Name: l.rec.Name})
	}
}

// letGo ends the launch's goroutines and closes its descriptors.
func (l *Launch) letGo() {
	l.cancelTasks()
	if l.keeper != nil {
		l.keeper.Close()
	}
}

// endNow stops a tree whose start failed.
func (l *Launch) endNow() {
	sweep.End(context.Background(), l.o.dir, l.rec.ID, l.o.here, sweep.Options{
		Phases: []stop.Phase{{Signal: syscall.SIGKILL, Wait: 5 * time.Second}}, Known: l.rec,
	})
}

// undo takes back what a failed start made. If the record can't be ended it
// stays for the next sweep.
func (l *Launch) undo() {
	l.endNow()
	l.cancelTasks()
	if l.proc != nil {
		l.proc.Close()
	}
}

// watchDirect waits for the leader of a direct launch. Its end is the tree's
// end.
func (l *Launch) watchDirect() {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	defer context.AfterFunc(l.o.ctx, cancel)()
	if l.rec.Brand != 0 {
		host.MarkBelow(l.proc, host.Brand(l.rec.Brand)) // not in Start, whose caller waits
	}
	err := l.proc.WaitExit(ctx)
	if err != nil && ctx.Err() != nil {
		l.reap() // the launch was let go of: proven gone, or the owner closes
		l.proc.Close()
		return
	}
	l.reap()
	l.o.event(Event{Kind: LeaderExited, Launch: l.rec.ID, Name: l.rec.Name, PID: l.pid})
	if !l.spec.Linger && !l.released.Load() {
		l.stopLater(nil)
	}
	select {
	case <-l.ctx.Done():
	case <-l.o.ctx.Done(): // released, and the owner closes
	}
	l.proc.Close()
}

// reap collects the leader's status with the standard library's own Wait, if
// the command is ours to wait for.
func (l *Launch) reap() {
	if l.cmd != nil {
		if done, err := l.proc.Exited(); err == nil && !done {
			l.waitErr = ErrClosed
			close(l.exited)
			return
		}
		l.waitErr = l.cmd.Wait()
		l.state = l.cmd.ProcessState
	}
	close(l.exited)
}

// watchKept listens to the keeper.
func (l *Launch) watchKept() {
	defer func() {
		if l.proc != nil {
			l.proc.Close()
		}
	}()
	known := false
	for {
		ev, err := l.keeper.Receive()
		if err != nil {
			l.keeperDied(&known)
			l.awaitKeeper()
			return
		}
		switch ev.Type {
		case "exit":
			known = true
			l.exitedWith(ev.Status)
		case "stopped":
			l.mu.Lock()
			f := l.onStopped
			l.stoppedBy = syscall.Signal(ev.Signal)
			l.mu.Unlock()
			if f != nil {
				f(syscall.Signal(ev.Signal))
			}
		case "ended":
			if ev.Result != nil {
				l.finished(stopResult(*ev.Result))
			}
		}
	}
}

// awaitKeeper waits for the end of the keeper of a tree that is gone, so that
// Close leaves no helper behind. It is on its way out: the bound is for one
// that is stopped or can't get on.
func (l *Launch) awaitKeeper() {
	select {
	case <-l.gone:
	default:
		return // released, or surviving: the keeper goes on
	}
	select {
	case <-l.keeper.Done():
	case <-time.After(10 * time.Second):
	}
}

// exitedWith makes the leader's status known as os/exec would.
func (l *Launch) exitedWith(status uint32) {
	state, err := l.o.helper.Mirror(status)
	l.state, l.waitErr = state, err
	if err == nil && !state.Success() {
		l.waitErr = &exec.ExitError{ProcessState: state}
	}
	close(l.exited)
	l.o.event(Event{Kind: LeaderExited, Launch: l.rec.ID, Name: l.rec.Name, PID: l.pid})
}

// keeperDied: the lineage is lost with it, so the launch can't be kept at the
// level it was promised, and ends. In the usual case it has ended already.
func (l *Launch) keeperDied(known *bool) {
	select {
	case <-l.gone:
	default:
		if l.ctx.Err() == nil {
			l.o.event(Event{Kind: KeeperDied, Launch: l.rec.ID, Name: l.rec.Name, PID: l.keeper.PID})
			if l.rec.OnOwnerDeath != ledger.Survive {
				<-l.stopLater(nil).done
			}
		}
	}
	if *known {
		return
	}
	// The status of a process that is not our child is known to the kernel as
	// long as we held its handle.
	if l.proc != nil {
		l.proc.WaitExit(l.ctx)
		for end := time.Now().Add(statusPatience); ; time.Sleep(10 * time.Millisecond) {
			reaped := l.proc.Numbered() != nil
			if st, err := l.proc.ExitStatus(); err == nil {
				l.exitedWith(st)
				return
			}
			if reaped || time.Now().After(end) {
				break // reaped without a word, or nobody reaps it
			}
		}
	}
	l.waitErr = ErrStatusUnknown
	close(l.exited)
}

// statusPatience is how long we wait for a stranger to reap the leader of a
// keeper that died: only then does the kernel tell its status.
const statusPatience = 2 * time.Second

// Wait waits until the leader has ended, within ctx, and returns its end as
// Cmd.Wait does, without waiting for output.
func (l *Launch) Wait(ctx context.Context) (*os.ProcessState, error) {
	select {
	case <-l.exited:
		return l.state, l.waitErr
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Member is one process proven to be of a launch.
type Member struct {
	PID     int      `json:"pid"`
	PPID    int      `json:"ppid"`
	State   string   `json:"state"`   // the kernel's letter; empty for a suspect that was not opened long enough
	Comm    string   `json:"comm"`    // the kernel's short name
	Command []string `json:"command"` // its arguments as it shows them now; empty where they can't be seen
	Proof   Finding  `json:"proof"`
}

// Members looks at the tree and returns its proven members.
func (l *Launch) Members() ([]Member, error) {
	rec, err := l.o.dir.Read(l.rec.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := contain.Of(rec, l.o.here, nil).Look(true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Verdict == proof.Unsure {
		return nil, errors.New(s.Reason)
	}
	return members(s), nil
}

func members(s *contain.Sighting) []Member {
	out := []Member{}
	for _, m := range s.Members {
		args, _ := m.Proc.Command() // its line may be out of our sight
		out = append(out, Member{PID: m.Row.PID, PPID: m.Row.PPID, State: string(rune(m.Row.State)),
			Comm: m.Row.Comm, Command: append([]string{}, args...), Proof: finding(m.Finding)})
	}
	return out
}

// Process is the leader of a launch, in place of os.Process.
type Process struct {
	Pid int
	l   *Launch
}

// Signal sends a signal to the leader, through its proven handle. It returns
// an error that matches os.ErrProcessDone after the leader's end.
func (p *Process) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v: unsupported", sig)
	}
	return p.l.Signal(s)
}

// Kill kills the leader; its end is the tree's end.
func (p *Process) Kill() error { return p.Signal(os.Kill) }

// Release hands the launch out of custody: it is recorded as released, and
// neither a stop nor a sweep nor the owner's end touches it, until a command
// that proves its identity takes it back (Adopt).
func (l *Launch) Release(ctx context.Context) error {
	if err := sweep.Release(ctx, l.o.dir, l.rec.ID); err != nil {
		return fmt.Errorf("release launch %s: %w", l.ID().Short(), err)
	}
	l.o.mu.Lock()
	delete(l.o.launches, l.rec.ID)
	l.o.mu.Unlock()
	l.released.Store(true)
	return nil
}

// Signal sends a signal to the leader alone.
func (l *Launch) Signal(sig syscall.Signal) error { return l.signal(sig, stop.Leader) }

// SignalGroup sends a signal to the leader's process group, atomically.
func (l *Launch) SignalGroup(sig syscall.Signal) error { return l.signal(sig, stop.Group) }

func (l *Launch) signal(sig syscall.Signal, send func(*contain.Tree, syscall.Signal) error) error {
	rec, err := l.o.dir.Read(l.rec.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return os.ErrProcessDone
	}
	if err != nil {
		return err
	}
	return send(contain.Of(rec, l.o.here, nil), sig)
}
