package custody

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/helper"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/sweep"
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
	exit    *ledger.Exit // as the engine told it, of a container; before exited is closed
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
	told    *ledger.Exit // what a stop was told of a container before it removed it

	onStopped func(syscall.Signal) // job control
	stoppedBy syscall.Signal       // told before somebody asked
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

// Release hands the launch out of custody: it is recorded as released, and
// neither a stop nor a sweep nor the owner's end touches it, until a command
// that proves its identity takes it back (Adopt). Of one that has ended the
// error matches os.ErrProcessDone.
func (l *Launch) Release(ctx context.Context) error {
	if err := sweep.Release(ctx, l.o.dir, l.rec.ID); err != nil {
		return fmt.Errorf("release launch %s: %w", l.ID().Short(), err)
	}
	l.released.Store(true)
	return nil
}

// outOfCustody reports whether the launch was released, and not taken back
// since: its record tells, which anybody can change who proves its identity.
func (l *Launch) outOfCustody() bool {
	if !l.released.Load() {
		return false
	}
	rec, err := l.o.dir.Read(l.rec.ID)
	if err != nil || rec.State == ledger.Released {
		return true
	}
	l.released.Store(false)
	return false
}
