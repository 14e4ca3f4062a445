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

// How a launch that outlived its owner is taken over: one rename moves its
// record into the new owner's directory, so exactly one wins.

// Adopt takes over a launch of the owner's scope whose owner has died or
// closed: by its id, an unambiguous start of it, or its name. The launch is
// then this owner's: Stop, Wait and Release work as on one it started. One
// that ended meanwhile can be adopted too: Gone is closed then, and Wait returns
// its status at once. One that was released is taken back first, if a live
// process is proven to be of it. One whose leader has ended, and whose keeper
// was killed, is stopped: the leader's end is the tree's end, unless it lingers.
//
// Adopting a launch of this owner returns that launch. ctx bounds how long a
// stop in progress is waited for.
//
// Errors: one that matches ErrTaken, a *TakenError, if a living owner has the
// launch; ErrNotFound if no record names it; ErrClosed if the owner closes
// meanwhile; else why it is not provably ours, or could not be written down:
// then it stays where it was.
func (o *Owner) Adopt(ctx context.Context, launch string) (*Launch, error) {
	fail := func(err error) (*Launch, error) { return nil, fmt.Errorf("adopt launch %s: %w", launch, err) }
	if err := o.begin(); err != nil {
		return fail(err)
	}
	defer o.starting.Done()
	ctx, cancel := o.whileOpen(ctx)
	defer cancel()
	opt := ListOptions{Dir: o.store.Path(), Scope: o.scope, AllowNetworkFS: o.opt.AllowNetworkFS}
	id, err := takeOver(ctx, launch, opt, func() (*ledger.Owner, error) { return o.dir, nil }, o.rec)
	if err != nil && o.closing.Err() != nil {
		err = ErrClosed
	}
	if err != nil {
		return fail(err)
	}
	rec, err := o.dir.Read(id)
	if err != nil {
		return fail(err)
	}
	l, taken, err := o.adopted(rec)
	if err != nil {
		return fail(err)
	}
	if taken {
		o.event(Event{Kind: LaunchAdopted, Launch: id, Name: rec.Name, PID: l.pid})
		o.tasks.Go(l.watchAdopted)
	}
	if rec.State == ledger.Ended {
		// Gone is closed and Wait returns at once: a caller asks next whether
		// there is anything to go on with.
		select {
		case <-l.gone:
		case <-ctx.Done():
		}
	}
	return l, nil
}

// adopted makes a Launch of a record that is ours by now, unless there is one.
func (o *Owner) adopted(rec *ledger.Record) (l *Launch, taken bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.launches[rec.ID] != nil:
		return o.launches[rec.ID], false, nil
	case o.begun[rec.ID]:
		return nil, false, errors.New("it is being started")
	}
	l = &Launch{o: o, rec: rec, spec: Spec{Linger: rec.Linger, Kept: true}, exited: make(chan struct{}), gone: make(chan struct{})}
	l.ctx, l.cancelTasks = context.WithCancel(context.Background())
	if rec.Leader != nil {
		l.pid = rec.Leader.PID
		if p, err := recognise(rec, rec.Leader, o.here); err == nil {
			l.proc = p
		}
	}
	o.launches[rec.ID] = l
	return l, true, nil
}

// AdoptOptions of Adopt.
type AdoptOptions struct {
	Dir            string
	Scope          string // where to look for a name; empty: every scope
	AllowNetworkFS bool

	// PID names the process on whose behalf the launch is taken over: it owns
	// the launch as long as it lives. It needs no library of ours. Zero only
	// takes a released launch back.
	PID int
}

// Adopt takes over a launch that outlived its owner, on behalf of a process: a
// program in any language that keeps launches by the custody command. It takes
// a released launch back into custody first, if a live process is proven to be
// of it; one that is to die with its owner stays with that owner.
//
// Errors as of Owner.Adopt.
func Adopt(ctx context.Context, launch string, opt AdoptOptions) (ID, error) {
	fail := func(err error) (ID, error) { return ID{}, fmt.Errorf("adopt launch %s: %w", launch, err) }
	lopt := ListOptions{Dir: opt.Dir, Scope: opt.Scope, AllowNetworkFS: opt.AllowNetworkFS}
	v, d, err := find(ctx, launch, lopt)
	if err != nil {
		return ID{}, err
	}
	if back := v.rec.State == ledger.Released && (v.rec.OnOwnerDeath != ledger.Survive || v.alive || opt.PID == 0); back {
		err = sweep.Reclaim(ctx, d, v.rec.ID, v.here)
		d.Close()
		if err != nil {
			return fail(err)
		}
		return v.rec.ID, nil // it is its owner's again
	}
	d.Close()
	heir, err := onBehalf(opt.PID, v.rec.Scope, v.here)
	if err != nil {
		return fail(err)
	}
	var to *ledger.Owner
	id, err := takeOver(ctx, v.rec.ID.String(), lopt, func() (*ledger.Owner, error) {
		if to != nil {
			return to, nil
		}
		var err error
		to, err = heirDir(ctx, lopt, heir)
		return to, err
	}, heir)
	if to != nil {
		sweep.DropOwner(to) // if it got nothing it stays empty, and goes
		to.Close()
	}
	if err != nil {
		return fail(err)
	}
	return id, nil
}

// CanOwn returns nil if a process lives, so that something may be owned on its
// behalf (AdoptOptions.PID). The error matches os.ErrProcessDone if it does not.
func CanOwn(pid int) error {
	p, err := openLiving(pid)
	if err != nil {
		return fmt.Errorf("process %d can own nothing: %w", pid, err)
	}
	return p.Close()
}

// openLiving opens a process that lives: a zombie is dead.
func openLiving(pid int) (*host.Process, error) {
	p, err := host.Open(pid)
	if err != nil {
		return nil, err
	}
	if ended, err := p.Exited(); err != nil || ended {
		p.Close()
		return nil, errors.Join(err, os.ErrProcessDone)
	}
	return p, nil
}

// onBehalf describes an owner that is a process without a lock of ours.
func onBehalf(pid int, scope string, here host.Place) (ledger.OwnerRecord, error) {
	if pid <= 0 {
		return ledger.OwnerRecord{}, fmt.Errorf("process %d can own nothing; name the process on whose behalf the launch is taken", pid)
	}
	p, err := openLiving(pid)
	if err != nil {
		return ledger.OwnerRecord{}, fmt.Errorf("on behalf of process %d: %w", pid, err)
	}
	defer p.Close()
	id, err := p.Identity()
	if err != nil {
		return ledger.OwnerRecord{}, fmt.Errorf("on behalf of process %d: %w", pid, err)
	}
	command, _ := p.Command()
	return ledger.OwnerRecord{
		ID: proof.NewID(), Scope: scope, Host: here.Host, Boot: here.Boot, PIDNS: here.PIDNS, Process: id,
		Command: brief(command[:min(1, len(command))]), Behalf: true, OpenedAt: time.Now().UTC(),
	}, nil
}

// heirDir opens the directory of the owner that stands for a process, or makes
// it, and takes its lock for the time of the move.
func heirDir(ctx context.Context, opt ListOptions, heir ledger.OwnerRecord) (*ledger.Owner, error) {
	store, _, err := openState(opt.Dir, opt.AllowNetworkFS)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	owners, _, err := store.Owners(heir.Scope)
	if err != nil {
		return nil, err
	}
	for _, id := range owners {
		d, err := store.OpenOwner(heir.Scope, id)
		if err != nil {
			continue
		}
		rec, err := d.ReadOwner()
		if err != nil || !rec.Behalf || rec.Boot != heir.Boot || rec.PIDNS != heir.PIDNS || !sameProcess(rec.Process, heir.Process) {
			d.Close()
			continue
		}
		if err := d.Lock(ctx); errors.Is(err, fs.ErrNotExist) {
			d.Close()
			break // it was removed meanwhile
		} else if err != nil {
			d.Close()
			return nil, err
		}
		return d, nil
	}
	return store.NewOwner(heir)
}

func sameProcess(a, b proof.Identity) bool {
	p, err := host.Recognise(a)
	if err != nil {
		return false
	}
	defer p.Close()
	return p.Is(b)
}

// takeOver moves the record of a launch to an heir, whose directory is asked
// for once it is known that the launch can be had.
func takeOver(ctx context.Context, launch string, opt ListOptions, dirOf func() (*ledger.Owner, error), heir ledger.OwnerRecord) (ID, error) {
	for try := 1; ; try++ {
		v, d, err := find(ctx, launch, opt)
		if err != nil {
			return ID{}, err
		}
		err = v.takeOver(ctx, d, dirOf, heir)
		d.Close()
		if errors.Is(err, fs.ErrNotExist) && try < 10 && ctx.Err() == nil {
			continue // it went to another owner, or its record ended
		}
		return v.rec.ID, err
	}
}

func (v visited) takeOver(ctx context.Context, d *ledger.Owner, dirOf func() (*ledger.Owner, error), heir ledger.OwnerRecord) error {
	ours := v.owner.ID == heir.ID || heir.Behalf && v.owner.Behalf && v.alive && sameProcess(v.owner.Process, heir.Process)
	if !ours {
		if err := v.free(d); err != nil {
			return err
		}
		if v.rec.OnOwnerDeath != ledger.Survive {
			return errors.New("it does not outlive its owner (on_owner_death is kill), and its owner has died; run 'custody sweep'")
		}
	}
	if v.rec.State == ledger.Released {
		if err := sweep.Reclaim(ctx, d, v.rec.ID, v.here); err != nil {
			return err
		}
		rec, err := d.Read(v.rec.ID)
		if err != nil {
			return err
		}
		v.rec = rec
	}
	if ours {
		return nil
	}
	if err := v.settled(ctx, d); err != nil {
		return err
	}
	to, err := dirOf()
	if err != nil {
		return err
	}
	err = sweep.Adopt(ctx, d, to, v.rec, v.here, func(r *ledger.Record) error {
		switch {
		case r.State == ledger.Released:
			return errors.New("it was released from custody meanwhile")
		case !r.Started():
			return errors.New("it has not started yet; what its owner left of it, 'custody sweep' ends")
		}
		return v.free(d) // whoever had the lock before us may own it now
	})
	if err == nil {
		if locked, _ := d.TryLock(); locked {
			sweep.DropOwner(d)
		}
	}
	return err
}

// settled returns an error unless the launch is proven to live, or to have
// ended: what ended while nobody was there to say so is concluded.
func (v visited) settled(ctx context.Context, d *ledger.Owner) error {
	if v.rec.State == ledger.Ended {
		return nil
	}
	// A moment in which something can't be told is no answer.
	tree := contain.Of(v.rec, v.here, nil)
	verdict, reason, runs := proof.Unsure, "", false
	for end := time.Now().Add(2 * time.Second); verdict == proof.Unsure; time.Sleep(20 * time.Millisecond) {
		s, err := tree.Look(true)
		if err != nil {
			return err
		}
		s.Close()
		verdict, reason, runs = s.Verdict, s.Reason, s.Container != nil && s.Container.Live
		if time.Now().After(end) || ctx.Err() != nil {
			break
		}
	}
	switch {
	case verdict == proof.Owned && runs && !v.rec.Started():
		// Its engine had started it, and its owner died before it could say so.
		return d.Update(v.rec.ID, func(r *ledger.Record) {
			if r.State == ledger.Intent && r.Container.ID != "" {
				r.State = ledger.Running
			}
		})
	case verdict == proof.Owned:
		return nil
	case verdict == proof.Unsure && ctx.Err() != nil:
		return ctx.Err()
	case verdict == proof.Gone && v.rec.Started():
		if res := sweep.End(ctx, d, v.rec.ID, v.here, sweep.Options{Known: v.rec}); res.Outcome != string(stop.Gone) {
			return errors.New(res.Reason)
		}
		return nil
	case verdict == proof.Gone:
		return errors.New("it has not started yet")
	}
	return fmt.Errorf("verdict %s: %s", verdict, reason)
}

// free returns a *TakenError while the owner in whose directory the launch
// lies is alive.
func (v visited) free(d *ledger.Owner) error {
	rec, err := d.ReadOwner()
	if err != nil {
		return err
	}
	switch sweep.OwnerAlive(rec, v.here) {
	case proof.No:
		return nil
	case proof.Unknown:
		return errors.New("its owner is of another machine or PID namespace, and can't be told dead")
	}
	if rec.Closed {
		return nil
	}
	return &TakenError{Launch: v.rec.ID, Owner: rec.ID, PID: rec.Process.PID, Command: rec.Command, self: rec.Process.PID == os.Getpid(),
		kill: v.rec.OnOwnerDeath != ledger.Survive}
}
