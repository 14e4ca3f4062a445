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
// its status at once.
//
// Adopting a launch of this owner returns that launch. ctx bounds how long a
// stop in progress is waited for.
//
// Errors: one that matches ErrTaken, a *TakenError, if a living owner has the
// launch; ErrNotFound if no record names it; else why it is not provably ours.
func (o *Owner) Adopt(ctx context.Context, launch string) (*Launch, error) {
	fail := func(err error) (*Launch, error) { return nil, fmt.Errorf("adopt launch %s: %w", launch, err) }
	if err := o.begin(); err != nil {
		return fail(err)
	}
	defer o.starting.Done()
	o.adopting.Lock()
	defer o.adopting.Unlock()
	opt := ListOptions{Dir: o.store.Path(), Scope: o.scope, AllowNetworkFS: o.opt.AllowNetworkFS}
	id, err := takeOver(ctx, launch, opt, func(ledger.OwnerRecord) (*ledger.Owner, error) { return o.dir, nil }, o.rec)
	if err != nil {
		return fail(err)
	}
	o.mu.Lock()
	l := o.launches[id]
	o.mu.Unlock()
	if l != nil {
		return l, nil
	}
	rec, err := o.dir.Read(id)
	if err != nil {
		return fail(err)
	}
	l = o.adopted(rec)
	o.event(Event{Kind: LaunchAdopted, Launch: id, Name: rec.Name, PID: l.pid})
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

// adopted makes a Launch of a record that is ours by now.
func (o *Owner) adopted(rec *ledger.Record) *Launch {
	l := &Launch{o: o, rec: rec, spec: Spec{Linger: rec.Linger, Kept: true}, exited: make(chan struct{}), gone: make(chan struct{})}
	l.ctx, l.cancelTasks = context.WithCancel(context.Background())
	if rec.Leader != nil {
		l.pid = rec.Leader.PID
		if p, err := host.Recognise(*rec.Leader); err == nil {
			l.proc = p
		}
	}
	o.mu.Lock()
	o.launches[rec.ID] = l
	o.mu.Unlock()
	o.tasks.Go(l.watchAdopted)
	return l
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
	defer d.Close()
	if v.rec.State == ledger.Released {
		if err := sweep.Reclaim(ctx, d, v.rec.ID, v.here); err != nil {
			return fail(err)
		}
		if v.rec.OnOwnerDeath != ledger.Survive || v.alive || opt.PID == 0 {
			return v.rec.ID, nil // it is its owner's again
		}
	}
	heir, err := onBehalf(opt.PID, v.rec.Scope, v.here)
	if err != nil {
		return fail(err)
	}
	var to *ledger.Owner
	id, err := takeOver(ctx, v.rec.ID.String(), lopt, func(rec ledger.OwnerRecord) (*ledger.Owner, error) {
		to, err = heirDir(ctx, lopt, rec)
		return to, err
	}, heir)
	if to != nil {
		dropOwner(to) // if it got nothing it stays empty, and goes
		to.Close()
	}
	if err != nil {
		return fail(err)
	}
	return id, nil
}

// onBehalf describes an owner that is a process without a lock of ours.
func onBehalf(pid int, scope string, here host.Place) (ledger.OwnerRecord, error) {
	if pid <= 0 {
		return ledger.OwnerRecord{}, fmt.Errorf("process %d can own nothing; name the process on whose behalf the launch is taken", pid)
	}
	p, err := host.Open(pid)
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

// dropOwner removes the directory of an owner that has nothing left in it. The
// caller holds its lock.
func dropOwner(d *ledger.Owner) {
	if store, err := ledger.OpenStoreOf(d); err == nil {
		defer store.Close()
		store.RemoveOwner(d)
	}
}

// takeOver moves the record of a launch to an heir, whose directory is asked
// for once it is known that the launch can be had.
func takeOver(ctx context.Context, launch string, opt ListOptions, dirOf func(ledger.OwnerRecord) (*ledger.Owner, error), heir ledger.OwnerRecord) (ID, error) {
	for try := 0; ; try++ {
		v, d, err := find(ctx, launch, opt)
		if err != nil {
			return ID{}, err
		}
		err = v.takeOver(ctx, d, dirOf, heir)
		d.Close()
		if errors.Is(err, fs.ErrNotExist) && try < 10 {
			continue // it went to another owner, or its record ended
		}
		return v.rec.ID, err
	}
}

func (v visited) takeOver(ctx context.Context, d *ledger.Owner, dirOf func(ledger.OwnerRecord) (*ledger.Owner, error), heir ledger.OwnerRecord) error {
	id := v.rec.ID
	if v.owner.ID == heir.ID || heir.Behalf && v.owner.Behalf && v.alive && sameProcess(v.owner.Process, heir.Process) {
		return nil // ours already
	}
	if err := v.free(d); err != nil {
		return err
	}
	if v.rec.OnOwnerDeath != ledger.Survive {
		return errors.New("it does not outlive its owner (on_owner_death is kill), and its owner has died; run 'custody sweep'")
	}
	if v.rec.State != ledger.Ended {
		s, err := contain.Of(v.rec, v.here, nil).Look(true)
		if err != nil {
			return err
		}
		s.Close()
		switch {
		case s.Verdict == proof.Gone && v.rec.Leader != nil:
			// It ended while nobody was there to say so.
			if res := sweep.End(ctx, d, id, v.here, sweep.Options{Known: v.rec}); res.Outcome != string(stop.Gone) {
				return errors.New(res.Reason)
			}
		case s.Verdict != proof.Owned:
			return fmt.Errorf("verdict %s: %s", s.Verdict, s.Reason)
		}
	}
	to, err := dirOf(heir)
	if err != nil {
		return err
	}
	err = ledger.Move(ctx, d, to, id, func(r *ledger.Record) error {
		switch {
		case r.State == ledger.Released:
			return errors.New("it was released from custody; take it back with 'custody adopt'")
		case r.Leader == nil:
			return errors.New("it has not started yet")
		}
		return v.free(d) // whoever had the lock before us may own it now
	})
	if err == nil {
		if locked, _ := d.TryLock(); locked {
			dropOwner(d)
		}
	}
	return err
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
	return &TakenError{Launch: v.rec.ID, Owner: rec.ID, PID: rec.Process.PID, Command: rec.Command, self: rec.Process.PID == os.Getpid()}
}
