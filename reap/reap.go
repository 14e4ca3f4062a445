package reap

// The public face of the reaper. What it does is in look_linux.go.

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	// ErrRunning is matched by Begin's error where a reaper runs already.
	ErrRunning = errors.New("this process has a reaper already")

	// ErrNotAdopter is matched by Begin's error where no orphan comes to this
	// process: set Options.Subreaper.
	ErrNotAdopter = errors.New("this process adopts no orphans: it is neither PID 1 nor a subreaper")

	// ErrIgnored is matched by Begin's error where the kernel collects every
	// child itself. os/exec does not work there either: it loses each status.
	ErrIgnored = errors.New("SIGCHLD is ignored")
)

// Options says how to reap. The zero value is right for PID 1.
type Options struct {
	// Subreaper makes this process adopt the orphans among its descendants, as
	// PID 1 does those of the whole namespace. Close takes it back.
	Subreaper bool

	// Patience is how long a zombie that nobody started by Start, and that has
	// no handle, must have been seen dead before it goes. Zero collects at
	// once, which is exact for everything that os/exec starts. Set it for
	// children forked by other means (see the package's preconditions), or
	// where the kernel has no process handles: half a second is plenty for who
	// waits at once.
	Patience time.Duration

	// Every is how often to look without being told of a death. SIGCHLD tells
	// of nearly all; it does not tell of a command that died long ago and was
	// released or forgotten since. Zero means 10 s.
	Every time.Duration

	// OnReaped, if not nil, is called for each collected orphan, one at a time.
	// Nothing is collected until it returns. It must not call Close.
	OnReaped func(Orphan)
}

// Orphan is an adopted process that has ended and was collected. Its number may
// belong to another process by now.
type Orphan struct {
	PID    int
	Status syscall.WaitStatus
}

// Stats says what a reaper has done.
type Stats struct {
	Reaped uint64 // orphans collected
	Looks  uint64 // looks at the children
	Left   int    // zombies of the last look that were left: somebody's, or Patience is not over
	Err    error  // why the last look did not see everything, nil if it did; it is repeated
}

// Reaper collects orphans until Close.
type Reaper struct {
	opt    Options
	quit   chan struct{}
	done   chan struct{}
	undo   func() // gives back what Begin took
	reaped atomic.Uint64
	looks  atomic.Uint64
	left   atomic.Int64
	err    atomic.Pointer[error]
	system
}

// running is the one reaper's place.
var running atomic.Bool

// Begin starts a reaper, which looks at once: orphans that ended before are
// collected too.
//
// Its error matches ErrRunning, ErrNotAdopter or ErrIgnored, or
// errors.ErrUnsupported where the system lacks what is needed; it names the
// failed precondition. Nothing was changed then.
func Begin(opt Options) (*Reaper, error) {
	if opt.Every <= 0 {
		opt.Every = 10 * time.Second
	}
	if !running.CompareAndSwap(false, true) {
		return nil, wrap("8: there is one reaper", ErrRunning)
	}
	r := &Reaper{opt: opt, quit: make(chan struct{}), done: make(chan struct{})}
	if err := r.begin(); err != nil {
		running.Store(false)
		return nil, err
	}
	return r, nil
}

// Close ends the reaper and waits for the look it is in. What ends from then on
// stays a zombie until this process ends. No goroutine, descriptor or signal
// subscription is left. The error is always nil; a second call does nothing.
func (r *Reaper) Close() error {
	select {
	case <-r.quit:
	default:
		close(r.quit)
	}
	<-r.done
	return nil
}

// Stats may be called at any time, after Close as well.
func (r *Reaper) Stats() Stats {
	s := Stats{Reaped: r.reaped.Load(), Looks: r.looks.Load(), Left: int(r.left.Load())}
	if err := r.err.Load(); err != nil {
		s.Err = *err
	}
	return s
}
