package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// How the end of a launch is learnt that is not our child: its leader's handle
// says when, its keeper writes down how.

// Exit is how a launch's leader ended.
type Exit struct {
	Code   int    `json:"code"`             // -1 if a signal ended it; a container's is what its engine says, 137 for KILL
	Signal string `json:"signal,omitempty"` // KILL, SEGV, …

	// OOM says that it ended by a KILL that no stop of ours sent, and that the
	// kernel killed somebody for lack of memory in the leader's memory cgroup
	// meanwhile: nearly always the leader, but the kernel does not say so. Of
	// a container it is what its engine says.
	OOM bool `json:"oom,omitempty"`
}

// String returns "exit status 7", "signal KILL" or "signal KILL, out of
// memory".
func (e Exit) String() string {
	if e.OOM {
		e.OOM = false
		return e.String() + ", out of memory"
	}
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
	return &Exit{Code: x.Code, Signal: x.Signal, OOM: x.OOM}
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
// ErrStoppedEarly if it was never started, ErrStatusUnknown if its keeper was
// killed before it could write the status down, or is the context's; else it
// says why the launch can't be watched from here.
func Wait(ctx context.Context, launch string, opt ListOptions) (Exit, error) {
	v, d, err := find(ctx, launch, opt)
	if err != nil {
		return Exit{}, err
	}
	w := &watch{dir: d, rec: v.rec, here: v.here}
	defer w.close()
	x, err := w.exit(ctx)
	if err == nil && !v.rec.Linger || errors.Is(err, ErrStatusUnknown) && v.rec.Container == nil {
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
	here   host.Place
	leader *host.Process // nil if it has ended and is collected
	keeper *host.Process // nil if it has ended
}

// recognise opens a process that a record names. One of another boot or
// namespace is os.ErrProcessDone: what is named so here is somebody else.
func recognise(rec *ledger.Record, id *proof.Identity, here host.Place) (*host.Process, error) {
	if id == nil || !sweep.Local(rec, here) {
		return nil, os.ErrProcessDone
	}
	return host.Recognise(*id)
}

// lives tells whether a process lives that a record names, as recognise does.
func lives(rec *ledger.Record, id *proof.Identity, here host.Place) proof.Answer {
	if id == nil || !sweep.Local(rec, here) {
		return proof.No
	}
	return host.Lives(*id)
}

// open opens leader and keeper, once a leader is recorded.
func (w *watch) open(ctx context.Context) error {
	for pause := 10 * time.Millisecond; w.rec.Leader == nil; pause = min(2*pause, 200*time.Millisecond) {
		began := w.ownerLives() || w.keeperBegins()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		switch r, err := w.read(); {
		case errors.Is(err, fs.ErrNotExist):
			return ErrStoppedEarly
		case err != nil:
			return err
		case r.Leader == nil && !began:
			return fmt.Errorf("its owner died before it began; 'custody sweep' ends its record: %w", ErrStoppedEarly)
		}
	}
	switch {
	case w.rec.State == ledger.Ended: // wherever it was
	case w.rec.Boot == w.here.Boot && w.rec.PIDNS != w.here.PIDNS, w.rec.Boot != w.here.Boot && (w.rec.Host == "" || w.rec.Host != w.here.Host):
		return errors.New("it is recorded on another machine or in another PID namespace, and can't be watched from here")
	}
	for id, p := range map[*proof.Identity]**host.Process{w.rec.Leader: &w.leader, w.rec.Keeper: &w.keeper} {
		q, err := recognise(w.rec, id, w.here)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		*p = q
	}
	return nil
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
			return nil, lerr
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

// ownerLives reports whether the owner may still end the launch.
func (w *watch) ownerLives() bool {
	rec, err := w.dir.ReadOwner()
	return err == nil && !rec.Closed && sweep.OwnerAlive(rec, w.here) != proof.No
}

// keeperBegins reports whether a keeper lives that may be about to write down
// what it started: it does so without its owner.
func (w *watch) keeperBegins() bool {
	return lives(w.rec, w.rec.Keeper, w.here) != proof.No
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
	if w.rec.Container != nil {
		return w.containerExit(ctx)
	}
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	if w.leader != nil && w.rec.Exit == nil {
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
// (Linux 6.15). What it tells is written down for who asks later.
func (w *watch) unwatched(ctx context.Context) (*ledger.Exit, error) {
	if w.leader == nil {
		if w.rec.Boot != w.here.Boot {
			return nil, fmt.Errorf("the machine was started anew: %w", ErrStatusUnknown)
		}
		return nil, ErrStatusUnknown
	}
	x := kernelExit(ctx, w.leader)
	if x == nil {
		return nil, ErrStatusUnknown
	}
	noteExit(w.dir, w.rec, x)
	return x, nil
}

// statusPatience is how long we wait for a stranger to reap the leader of a
// keeper that died: only then does the kernel tell its status.
const statusPatience = 2 * time.Second

// kernelExit is what the kernel tells of a process that has ended; nil if that
// is nothing: it was reaped without a word, or nobody reaps it.
func kernelExit(ctx context.Context, p *host.Process) *ledger.Exit {
	for end := time.Now().Add(statusPatience); ; time.Sleep(10 * time.Millisecond) {
		reaped := p.Numbered() != nil
		if st, err := p.ExitStatus(); err == nil {
			return sweep.ExitOf(st)
		}
		if reaped || time.Now().After(end) || ctx.Err() != nil {
			return nil
		}
	}
}

// noteExit writes down how the leader of a launch ended that has no keeper any
// more to do so. Where it can't be written nobody else will know.
func noteExit(d *ledger.Owner, rec *ledger.Record, x *ledger.Exit) {
	if rec.Keeper == nil {
		return // a direct launch: its owner waits for it
	}
	d.Update(rec.ID, func(r *ledger.Record) {
		if r.Exit == nil {
			r.Exit = x
		}
	})
}

// end waits until the whole launch has ended, or nobody lives who would end
// it: the keeper, which ends with its launch, or the owner of a launch without
// one.
func (w *watch) end(ctx context.Context) error {
	if w.rec.Container != nil {
		return w.containerEnd(ctx)
	}
	if w.rec.Keeper != nil {
		if w.keeper == nil {
			return nil
		}
		return w.keeper.WaitExit(ctx)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		lives := w.ownerLives()
		if r, err := w.read(); errors.Is(err, fs.ErrNotExist) || err == nil && r.State == ledger.Ended || !lives {
			return nil
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
	if l.proc != nil {
		defer l.proc.Close()
	}
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	defer context.AfterFunc(l.o.ctx, cancel)()
	d, err := ledger.OpenOwnerAt(l.o.dir.Path())
	if err != nil {
		l.waitErr = err
		close(l.exited)
		<-ctx.Done()
		return
	}
	w := &watch{dir: d, rec: l.rec, here: l.o.here}
	defer w.close()
	if p, err := recognise(l.rec, l.rec.Keeper, l.o.here); err == nil {
		l.o.tasks.Go(func() { l.mindKeeper(ctx, p) })
	}
	l.learnExit(ctx, w)
	if w.end(ctx) != nil {
		return // let go of: it has ended, or the owner closes
	}
	r, err := w.read()
	switch {
	case err == nil && r.State == ledger.Ended:
		l.finished(StopResult{ID: l.ID(), Name: l.Name(), Verdict: Gone, Outcome: string(stop.Gone), Reason: "it has ended",
			Signalled: []int{}, Signals: []Sent{}, Survivors: []Survivor{}, Freed: []string{}})
	case err == nil && r.Linger && l.rec.Container == nil:
		l.lingerAlone(ctx)
	case err == nil && (r.Linger || r.State == ledger.Released):
	default:
		<-l.stopLater(nil).done // nobody else ends what its leader left
	}
	<-ctx.Done() // the leader's handle is used until the launch is let go of
}

// lingerAlone concludes a launch that lingers and has no keeper any more, once
// the last of its tree has ended or somebody has stopped it: else its name would
// be held as long as its owner lives.
func (l *Launch) lingerAlone(ctx context.Context) {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		select {
		case <-ctx.Done(): // it is gone, or the owner closes
			return
		case <-time.After(pause):
		}
		r, err := l.o.dir.Read(l.rec.ID)
		ended := errors.Is(err, fs.ErrNotExist) || err == nil && r.State == ledger.Ended
		if err == nil && !ended && r.State != ledger.Released {
			// The second look knows which zombies the first one saw.
			tree := contain.Of(r, l.o.here, nil)
			for look := 0; look < 2 && !ended; look++ {
				if s, err := tree.Look(true); err == nil {
					ended = s.Verdict == proof.Gone
					s.Close()
				}
			}
		}
		if ended {
			<-l.stopLater(nil).done
		}
	}
}

// learnExit waits for the leader's end and makes its status known.
func (l *Launch) learnExit(ctx context.Context, w *watch) {
	x, err := w.exit(ctx)
	if err != nil && ctx.Err() != nil && l.isGone() {
		// Our own stop ended it while we were waiting: it is known by now.
		last, cancel := context.WithTimeout(context.Background(), statusPatience)
		defer cancel()
		x, err = w.exit(last)
	}
	if errors.Is(err, ErrStatusUnknown) && l.rec.Container != nil {
		if told := l.toldAtStop(); told != nil {
			x, err = told, nil
		}
	}
	switch {
	case err == nil:
		l.setExit(x)
		l.exitedWith(x.Status)
		return
	case ctx.Err() != nil && !l.isGone():
		l.waitErr = ErrClosed // it goes on, and we let go of it
	case errors.Is(err, ErrStatusUnknown):
		l.waitErr = ErrStatusUnknown
	default:
		l.waitErr = err
	}
	close(l.exited)
}

// mindKeeper tells if the keeper is killed. Otherwise it ends after its launch.
func (l *Launch) mindKeeper(ctx context.Context, keeper *host.Process) {
	defer keeper.Close()
	if keeper.WaitExit(ctx) != nil {
		return
	}
	if r, err := l.o.dir.Read(l.rec.ID); err == nil && r.State != ledger.Ended {
		l.o.event(Event{Kind: KeeperDied, Launch: l.rec.ID, Name: l.rec.Name, PID: l.rec.Keeper.PID})
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
