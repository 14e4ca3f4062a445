package custody

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
)

// How a launch is stopped: any number of callers share one stop, its hook and
// its result.

// stopping is one stop that any number of callers wait for.
type stopping struct {
	done  chan struct{}
	hurry chan struct{}
	now   chan struct{} // closed: nothing but KILL any more
	once  sync.Once     // guards its closing
	res   StopResult
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

// Kill is Stop with KILL as the only phase, and without the hook. A stop in
// progress goes on with KILL at once, unless another process is at it (the
// keeper of an adopted launch whose leader has ended): that is waited for.
func (l *Launch) Kill(ctx context.Context) (StopResult, error) {
	return l.await(ctx, l.killLater())
}

// killLater begins a stop that is only KILL, or makes the one in progress that.
func (l *Launch) killLater() *stopping {
	s := l.stopLater([]stop.Phase{{Signal: syscall.SIGKILL, Wait: 5 * time.Second}})
	s.once.Do(func() { close(s.now) })
	if l.keeper != nil {
		l.keeper.Kill() // it may be the one that stops the tree; if it is dead it is not
	}
	return s
}

// StopWith is Stop with another plan, without the hook; an empty one is the
// launch's own.
func (l *Launch) StopWith(ctx context.Context, phases []Phase) (StopResult, error) {
	if len(phases) == 0 {
		return l.Stop(ctx)
	}
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
	s := &stopping{done: make(chan struct{}), hurry: make(chan struct{}, 8), now: make(chan struct{})}
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
		l.sayGoodbye(s)
	}
	res := sweep.End(context.Background(), l.o.dir, l.rec.ID, l.o.here, sweep.Options{
		Phases: phases, Hurry: s.hurry, Now: s.now, Known: l.rec,
		Event: func(sent stop.Sent) { l.o.event(sentEvent(l.rec.ID, l.rec.Name, sent)) },
	})
	s.res = stopResult(res)
	l.mu.Lock()
	l.told = res.Exit
	l.mu.Unlock()
	l.finished(s.res)
	l.mu.Lock()
	l.current = nil
	l.mu.Unlock()
	close(s.done)
}

// sayGoodbye runs the hook, if the leader is still there to hear it.
func (l *Launch) sayGoodbye(s *stopping) {
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
	case <-s.now: // no time for goodbyes
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
	if h := res.StopHook; first && h != nil && (h.State == StopHookFailed || h.State == StopHookUnknown) {
		l.o.event(Event{Kind: HookFailed, Launch: l.rec.ID, Name: l.rec.Name, Err: errors.New("stop hook " + h.String())})
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
		Phases: []stop.Phase{{Signal: syscall.SIGKILL, Wait: 5 * time.Second}}, Known: l.rec, Failed: true,
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
