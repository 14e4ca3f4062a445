package custody

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/sweep"
)

// How the end of a leader is noticed: a direct one by its handle, a kept one
// by what its keeper tells.

// watchDirect waits for the leader of a direct launch. Its end is the tree's
// end.
func (l *Launch) watchDirect() {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	defer context.AfterFunc(l.o.ctx, cancel)()
	err := l.proc.WaitExit(ctx)
	if err != nil && ctx.Err() != nil {
		l.reap() // the launch was let go of: proven gone, or the owner closes
		l.proc.Close()
		return
	}
	l.reap()
	l.o.event(Event{Kind: LeaderExited, Launch: l.rec.ID, Name: l.rec.Name, PID: l.pid})
	if !l.spec.Linger && !l.outOfCustody() {
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
	defer l.keeper.Forget()
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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l.keeper.Ends(ctx)
}

// exitedWith makes the leader's status known as os/exec would.
func (l *Launch) exitedWith(status uint32) {
	state, err := l.o.helper.Mirror(status)
	l.state, l.waitErr = state, err
	switch {
	case err != nil:
		l.waitErr = fmt.Errorf("it ended (%s), which can't be told as os/exec does: %w", *exitOf(sweep.ExitOf(status)), err)
	case !state.Success():
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
	if !*known {
		l.waitErr = ErrStatusUnknown
		x := l.lastWords()
		if x == nil && l.ctx.Err() != nil && !l.isGone() {
			l.waitErr = ErrClosed // it goes on, and we let go of it
		}
		if x != nil {
			noteExit(l.o.dir, l.rec, x)
			l.exitedWith(x.Status)
		} else {
			close(l.exited)
		}
	}
	if l.rec.OnOwnerDeath != ledger.Survive || l.ctx.Err() != nil || l.isGone() || l.outOfCustody() {
		return
	}
	if l.rec.Linger {
		l.lingerAlone(l.ctx)
		return
	}
	<-l.stopLater(nil).done // nobody else ends what its leader left
}

// lastWords waits for the end of a leader whose keeper died. The status of a
// process that is not our child is known to the kernel as long as we held its
// handle.
func (l *Launch) lastWords() *ledger.Exit {
	if l.proc == nil {
		return nil
	}
	if l.proc.WaitExit(l.ctx) != nil && !l.isGone() {
		return nil
	}
	return kernelExit(context.Background(), l.proc)
}
