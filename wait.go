package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
)

// How the end of a launch is learnt that is not our child: its leader's handle
// says when, its keeper writes down how.

// Exit is how a launch's leader ended.
type Exit struct {
	Code   int    `json:"code"`             // -1 if a signal ended it
	Signal string `json:"signal,omitempty"` // KILL, SEGV, …
}

// String returns "exit status 7" or "signal KILL".
func (e Exit) String() string {
	if e.Signal != "" {
		return "signal " + e.Signal
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Success reports whether the leader ended by itself with status 0.
func (e Exit) Success() bool { return e.Code == 0 && e.Signal == "" }

func exitOf(x *ledger.Exit) *Exit {
	if x == nil {
		return nil
	}
	return &Exit{Code: x.Code, Signal: x.Signal}
}

// ShellCode returns the status a shell would report: the code, or 128 and the
// signal's number.
func (e Exit) ShellCode() int {
	if sig, err := stop.ParseSignal(e.Signal); err == nil && e.Signal != "" {
		return 128 + int(sig)
	}
	return e.Code
}

// Wait waits until a launch of any owner has ended, by its id, an unambiguous
// start of it, or its name, and returns how its leader ended: also if that was
// while nobody watched. Of a launch that lingers only the leader is waited for.
//
// The error matches ErrNotFound if no record names the launch,
// ErrStatusUnknown if its keeper was killed before it could write the status
// down, or is the context's.
func Wait(ctx context.Context, launch string, opt ListOptions) (Exit, error) {
	v, d, err := find(ctx, launch, opt)
	if err != nil {
		return Exit{}, err
	}
	w := newWatch(d, v.rec)
	defer w.close()
	x, err := w.exit(ctx)
	if err == nil && !v.rec.Linger || errors.Is(err, ErrStatusUnknown) {
		err = errors.Join(err, w.end(ctx))
	}
	if err != nil {
		return Exit{}, fmt.Errorf("wait for launch %s: %w", v.rec.ID.Short(), err)
	}
	return *exitOf(x), nil
}

// watch follows one launch from outside.
type watch struct {
	dir    *ledger.Owner // where its record lies
	rec    *ledger.Record
	leader *host.Process // nil if it has ended and is collected
	keeper *host.Process // nil if it has ended
}

// newWatch takes over d.
func newWatch(d *ledger.Owner, rec *ledger.Record) *watch {
	w := &watch{dir: d, rec: rec}
	if rec.Leader != nil {
		w.leader, _ = host.Recognise(*rec.Leader)
	}
	if rec.Keeper != nil {
		w.keeper, _ = host.Recognise(*rec.Keeper)
	}
	return w
}

func (w *watch) close() {
	for _, p := range []*host.Process{w.leader, w.keeper} {
		if p != nil {
			p.Close()
		}
	}
	w.dir.Close()
}

// read reads the record where it lies by now.
func (w *watch) read() (*ledger.Record, error) {
	r, err := w.dir.Read(w.rec.ID)
	if errors.Is(err, fs.ErrNotExist) {
		d, lerr := ledger.Locate(w.dir, w.rec.ID)
		if lerr != nil {
			return nil, err
		}
		w.dir.Close()
		w.dir = d
		r, err = d.Read(w.rec.ID)
	}
	if err == nil {
		w.rec = r
	}
	return r, err
}

// keeperLives reports whether the keeper may still write something down.
func (w *watch) keeperLives() bool {
	if w.keeper == nil {
		return false
	}
	gone, err := w.keeper.Exited()
	return err == nil && !gone
}

// exit waits for the leader's end, and for its status to be known.
func (w *watch) exit(ctx context.Context) (*ledger.Exit, error) {
	if w.leader != nil {
		if err := w.leader.WaitExit(ctx); err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		// Asked before the record is read: what the keeper wrote last is seen.
		lives := w.keeperLives()
		r, err := w.read()
		switch {
		case err == nil && r.Exit != nil:
			return r.Exit, nil
		case !lives:
			return w.unwatched(ctx)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// unwatched asks the kernel for the status that no keeper wrote down: it tells
// that of a stranger's child once it is collected, to who held its handle
// (Linux 6.15).
func (w *watch) unwatched(ctx context.Context) (*ledger.Exit, error) {
	if w.leader == nil {
		return nil, ErrStatusUnknown
	}
	for end := time.Now().Add(statusPatience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		reaped := w.leader.Numbered() != nil
		if st, err := w.leader.ExitStatus(); err == nil {
			return sweep.ExitOf(st), nil
		}
		if reaped {
			break
		}
	}
	return nil, ErrStatusUnknown
}

// end waits until the whole launch has ended, or its keeper has died.
func (w *watch) end(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		lives := w.keeperLives()
		r, err := w.read()
		if errors.Is(err, fs.ErrNotExist) || err == nil && r.State == ledger.Ended || !lives {
			return nil
		}
		if lives && pause > 50*time.Millisecond {
			// It ends with its launch: no need to look more often.
			slice, cancel := context.WithTimeout(ctx, 2*time.Second)
			w.keeper.WaitExit(slice)
			cancel()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// watchAdopted is what a Launch does that was adopted: it has no keeper that
// talks to it.
func (l *Launch) watchAdopted() {
	d, err := ledger.OpenOwnerAt(l.o.dir.Path())
	if err != nil {
		l.waitErr = err
		close(l.exited)
		return
	}
	w := newWatch(d, l.rec)
	defer w.close()
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	defer context.AfterFunc(l.o.ctx, cancel)()
	x, err := w.exit(ctx)
	switch {
	case err == nil:
		l.exitedWith(x.Status)
	case ctx.Err() != nil && !l.isGone():
		l.waitErr = ErrClosed
		close(l.exited)
	case ctx.Err() != nil:
		// Our own stop ended it while we were waiting: it is known by now.
		last, cancel := context.WithTimeout(context.Background(), statusPatience)
		x, err = w.exit(last)
		cancel()
		if err == nil {
			l.exitedWith(x.Status)
			break
		}
		fallthrough
	default:
		l.waitErr = ErrStatusUnknown
		close(l.exited)
	}
	if l.proc != nil {
		defer l.proc.Close()
	}
	keeper := w.keeperLives()
	if !keeper && ctx.Err() == nil && w.rec.State != ledger.Ended && !w.rec.Linger {
		l.stopLater(nil) // nobody else ends what its leader left
	}
	if w.end(ctx) != nil {
		return
	}
	r, err := w.read()
	if errors.Is(err, fs.ErrNotExist) || err == nil && r.State == ledger.Ended {
		l.finished(StopResult{ID: l.ID(), Name: l.Name(), Verdict: Gone, Outcome: string(stop.Gone), Reason: "it has ended"})
	} else if keeper {
		l.o.event(Event{Kind: KeeperDied, Launch: l.rec.ID, Name: l.rec.Name, PID: l.rec.Keeper.PID})
	}
	if l.ctx.Err() == nil {
		<-ctx.Done() // the leader's handle is used until the launch is let go of
	}
}

func (l *Launch) isGone() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}
