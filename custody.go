// Package custody owns process trees from launch to proven-gone: nothing an
// owner started outlives it by accident, and nothing it did not start is ever
// signalled.
//
//	func main() {
//		custody.ServeHelper() // first line: lets the program serve as its own helper
//		o, err := custody.Open(ctx, "browsers", nil)
//		…
//		defer o.Close()
//		cmd := o.Command("firefox-esr", "-headless", "-profile", "{PROFILE}")
//		cmd.TempDirs = []string{"PROFILE"}
//		err = cmd.Start()
//		…
//		res, err := cmd.Launch().Stop(ctx)
//	}
//
// A program is ported from os/exec by taking its commands from an Owner: Cmd
// has the fields and methods of exec.Cmd.
//
// # Words
//
// An owner is the program on whose behalf trees run. A scope is the name an
// application gives its owners; several owners of one scope may live at once.
// A launch is one tree, with a random id and a durable record. Its level says
// which containment was really achieved. Whatever is found later is judged by
// evidence, and the verdict is owned, gone, foreign or unsure; only owned is
// ever signalled.
//
// # Systems
//
// Linux 6.14 or later is fully served; from 5.3 on with weaker identity (see
// Doctor). On other systems every call returns an error that matches
// errors.ErrUnsupported for now.
//
// The library installs no signal handler, waits for no child it did not start
// and keeps no global state; several owners can live in one process.
package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/custody-project/custody/internal/helper"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// ServeHelper lets this program serve as its own helper: call it first thing
// in main. In a helper process it does the helper's work and does not return;
// otherwise it costs one look at the environment.
//
// Without it Open looks for the custody binary.
func ServeHelper() { helper.Main() }

// Options of Open. A nil *Options and the zero value are the defaults.
type Options struct {
	// Dir is the state directory. Empty: CUSTODY_DIR, else
	// $XDG_STATE_HOME/custody, else ~/.local/state/custody, else /run/custody
	// for root. It is made with mode 0700 and refused if others may change it.
	Dir string

	// Helper is the path of a custody binary to use as helper. Empty: this
	// program if it called ServeHelper, else the binary "custody" beside it or
	// in PATH.
	Helper string

	// WithoutHelper accepts that no helper can run: then launches outlive a
	// killed owner until the next sweep, and kept launches are refused.
	WithoutHelper bool

	// AllowNetworkFS accepts a state directory on a network file system,
	// whose locks may not exclude anybody.
	AllowNetworkFS bool

	// WithoutSweep leaves the launches of dead owners of the scope alone.
	// Otherwise Open sweeps them before it returns.
	WithoutSweep bool

	// OnEvent, if set, is called for every signal, refusal and change of a
	// launch, from several goroutines. It must not block.
	OnEvent func(Event)
}

// Owner owns launches. Its methods may be called from several goroutines.
type Owner struct {
	opt    Options
	scope  string
	id     proof.ID
	store  *ledger.Store
	dir    *ledger.Owner
	here   host.Place
	self   *host.Process
	helper helper.Binary
	rec    ledger.OwnerRecord
	swept  SweepReport

	mu       sync.Mutex
	launches map[proof.ID]*Launch
	closed   bool
	begun    map[proof.ID]bool // starts in flight, by launch
	starting sync.WaitGroup    // starts in flight, counted under mu while not closed
	closing  context.Context   // done when Close begins
	noMore   context.CancelFunc

	probe   cloneProbe
	cgroups cgroups
	dog     dog
	ctx     context.Context // done when the owner closes
	stop    context.CancelFunc
	tasks   sync.WaitGroup // every goroutine of the owner and its launches
}

// Open makes this process an owner of the scope. It first sweeps what dead
// owners of the scope left behind, within ctx, unless told not to; what the
// sweep could not end is in Swept.
//
// Errors: one that matches ErrNoHelper if no helper can run; one that matches
// errors.ErrUnsupported on a system or kernel without process handles; else
// what is wrong with the state directory.
func Open(ctx context.Context, scope string, opt *Options) (*Owner, error) {
	o := &Owner{scope: scope, id: proof.NewID(), launches: map[proof.ID]*Launch{}, begun: map[proof.ID]bool{}}
	if opt != nil {
		o.opt = *opt
	}
	if err := ledger.CheckScope(scope); err != nil {
		return nil, fmt.Errorf("open owner: %w", err)
	}
	var err error
	if o.here, err = host.Here(); err != nil {
		return nil, fmt.Errorf("open owner: %w", err)
	}
	if o.self, err = host.Open(os.Getpid()); err != nil {
		return nil, fmt.Errorf("open owner: custody needs process handles (pidfd, Linux 5.3): %w", err)
	}
	if o.helper, err = helper.Find(o.opt.Helper); err != nil && !o.opt.WithoutHelper {
		o.self.Close()
		return nil, fmt.Errorf("open owner: %w", err)
	}
	if err := o.open(ctx); err != nil {
		o.self.Close()
		return nil, fmt.Errorf("open owner: %w", err)
	}
	o.ctx, o.stop = context.WithCancel(context.Background())
	o.closing, o.noMore = context.WithCancel(context.Background())
	return o, nil
}

func (o *Owner) open(ctx context.Context) error {
	dir, err := StateDir(o.opt.Dir)
	if err != nil {
		return err
	}
	o.store, err = ledger.OpenStore(dir, ledger.Options{Create: true, AllowNetworkFS: o.opt.AllowNetworkFS})
	if err != nil {
		return err
	}
	// What dead owners left is ended before anything new begins: it may hold
	// names, ports and directories that we are about to want.
	if !o.opt.WithoutSweep {
		rep, err := sweep.Sweep(ctx, o.store, o.here, sweep.Request{Scope: o.scope, Event: o.sweepEvent})
		if err != nil {
			o.store.Close()
			return err
		}
		o.swept = sweepReport(rep)
	}
	id, err := o.self.Identity()
	if err == nil {
		o.rec = ledger.OwnerRecord{
			ID: o.id, Scope: o.scope, Host: o.here.Host, Boot: o.here.Boot, PIDNS: o.here.PIDNS,
			Process: id, Command: os.Args[:1], OpenedAt: time.Now().UTC(),
		}
		o.dir, err = o.store.NewOwner(o.rec)
	}
	if err != nil {
		o.store.Close()
	}
	return err
}

// Scope returns the owner's scope.
func (o *Owner) Scope() string { return o.scope }

// ID returns the owner's id.
func (o *Owner) ID() ID { return o.id }

// Dir returns the state directory.
func (o *Owner) Dir() string { return o.store.Path() }

// Swept returns what Open's sweep found and did.
func (o *Owner) Swept() SweepReport { return o.swept }

// Launches returns the launches of this owner that are not proven gone, and
// are in custody.
func (o *Owner) Launches() []*Launch {
	return slices.DeleteFunc(o.all(), (*Launch).outOfCustody)
}

// all returns the released launches too.
func (o *Owner) all() []*Launch {
	o.mu.Lock()
	defer o.mu.Unlock()
	ls := make([]*Launch, 0, len(o.launches))
	for _, l := range o.launches {
		ls = append(ls, l)
	}
	return ls
}

// Close stops every launch that is to die with its owner, each by its own
// plan, and lets go of the state directory. Launches that survive go on and
// keep their records. No goroutine, descriptor or helper of a stopped launch
// is left afterwards.
//
// Close is safe to call twice. It returns an error that matches ErrIncomplete
// if something could not be ended; its record is kept for the next sweep.
func (o *Owner) Close() error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil
	}
	o.closed = true
	o.mu.Unlock()
	// What is being started by now is started to its end, then stopped with
	// the others; what waits for a name waits no longer.
	o.noMore()
	o.starting.Wait()

	var errs []error
	var mu sync.Mutex
	var wg sync.WaitGroup
	note := func(err error) {
		if err != nil {
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		}
	}
	for _, l := range o.Launches() {
		if l.rec.OnOwnerDeath == ledger.Survive {
			continue
		}
		wg.Go(func() {
			_, err := l.Stop(context.Background())
			note(err)
		})
	}
	wg.Wait()
	o.endRecorded(note)
	o.stop()
	o.dog.dismiss()
	for _, l := range o.all() {
		l.letGo()
	}
	o.tasks.Wait()

	// Survivors and what could not be ended keep the directory; without the
	// lock and with this mark it is free for the next owner or sweep.
	o.rec.Closed = true
	if err := o.store.RemoveOwner(o.dir); errors.Is(err, fs.ErrExist) {
		if err := o.dir.WriteOwner(o.rec); err != nil {
			errs = append(errs, err)
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	errs = append(errs, o.dir.Close(), o.store.Close(), o.self.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close owner: %w", err)
	}
	return nil
}

// endRecorded ends what is recorded and no launch of ours any more: a start
// that failed and could not be taken back then.
func (o *Owner) endRecorded(note func(error)) {
	recs, _, err := o.dir.Records()
	if err != nil {
		note(err)
		return
	}
	known := map[proof.ID]bool{}
	for _, l := range o.all() {
		known[l.rec.ID] = true
	}
	var wg sync.WaitGroup
	for _, r := range recs {
		if known[r.ID] || r.OnOwnerDeath == ledger.Survive && r.Started() || r.State == ledger.Released {
			continue
		}
		wg.Go(func() {
			res := stopResult(sweep.End(context.Background(), o.dir, r.ID, o.here, sweep.Options{Known: r,
				Event: func(s stop.Sent) { o.event(sentEvent(r.ID, r.Name, s)) }}))
			switch res.Outcome {
			case string(stop.Gone):
				o.event(Event{Kind: LaunchGone, Launch: r.ID, Name: r.Name})
			case string(stop.Incomplete):
				note(&IncompleteError{Launch: r.ID, Result: res})
			}
		})
	}
	wg.Wait()
}

// whileOpen is a context that ends with ctx, and when Close begins.
func (o *Owner) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	deaf := context.AfterFunc(o.closing, cancel)
	return ctx, func() { deaf(); cancel() }
}

// launching notes a launch that is being started, until done is called: nobody
// is to take it for one that was adopted.
func (o *Owner) launching(id proof.ID) (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun[id] = true
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.begun, id)
	}
}

// begin counts a start in flight, for which Close waits. The caller calls
// o.starting.Done, unless the owner is closed.
func (o *Owner) begin() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return ErrClosed
	}
	o.starting.Add(1)
	return nil
}
