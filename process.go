package custody

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
)

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

// Signal sends a signal to the leader alone.
func (l *Launch) Signal(sig syscall.Signal) error { return l.signal(sig, stop.Leader) }

// SignalGroup sends a signal to the leader's process group, atomically.
func (l *Launch) SignalGroup(sig syscall.Signal) error { return l.signal(sig, stop.Group) }

func (l *Launch) signal(sig syscall.Signal, send func(*contain.Tree, syscall.Signal) error) error {
	rec, err := l.record()
	if err != nil {
		return err
	}
	if rec == nil {
		return os.ErrProcessDone
	}
	return send(contain.Of(rec, l.o.here, nil), sig)
}

// record reads the launch's record, nil once the tree is proven gone. A record
// that is missing otherwise was deleted by somebody, and is no proof of
// anything: then the launch is known as it was started.
func (l *Launch) record() (*ledger.Record, error) {
	rec, err := l.o.dir.Read(l.rec.ID)
	if !errors.Is(err, fs.ErrNotExist) {
		return rec, err
	}
	select {
	case <-l.gone:
		return nil, nil
	default:
	}
	known := *l.rec
	if l.released.Load() {
		known.State = ledger.Released
	}
	return &known, nil
}
