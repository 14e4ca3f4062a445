package custody

import (
	"context"
	"fmt"
	"os"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/helper"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
)

// The start of a kept launch: a keeper, which forks the leader.

// startKept starts a keeper, which forks the leader and writes its identity
// down.
func (l *Launch) startKept(a startArgs) error {
	attr, err := helper.AttrOf(a.attr)
	if err != nil {
		return fmt.Errorf("start %s: %w", a.path, err)
	}
	if a.spec.Terminal {
		attr = attr.OnTerminal()
	}
	env, args := dress(l.rec, a.env, a.args)
	var log, logEnd *os.File
	if l.rec.Log != nil {
		r, w, err := helper.LogPipe()
		if err != nil {
			return fmt.Errorf("start %s: log: %w", a.path, err)
		}
		defer r.Close()
		defer w.Close()
		for i := 1; i < 3; i++ {
			if a.std[i] == nil {
				a.std[i] = w
			}
		}
		log, logEnd = r, w
	}
	k, err := l.o.helper.StartKeeper(l.rec.ID, args[0], a.std, a.extra, log, l.o.self, !a.spec.Terminal, l.rec.OnOwnerDeath == ledger.Survive)
	if err != nil {
		return fmt.Errorf("start %s: %w", a.path, err)
	}
	spec := helper.Spec{
		OwnerDir: l.o.dir.Path(), ID: l.rec.ID, Path: a.path, Args: args, Env: env, Dir: a.dir,
		Terminal: a.spec.Terminal, Front: a.spec.Terminal && a.spec.Front, PIDNS: l.rec.Level == contain.PIDNS, Join: l.o.joins(), Attr: attr, Linger: a.spec.Linger, Survive: l.rec.OnOwnerDeath == ledger.Survive, Log: l.rec.Log,
	}
	above := []int{k.PID}
	if log != nil {
		var spare int
		spare, err = l.o.helper.StartSpare(k, spec, *l.rec.Log, log)
		above = append(above, spare)
	}
	if err == nil && a.spec.ScopeUnit {
		err = l.enterScope(a.ctx, above)
	}
	if err == nil {
		err = k.Begin(spec)
	}
	if err != nil {
		if logEnd != nil {
			logEnd.Close() // the spare has nothing to wait for
		}
		k.Close()
		k.Ends(context.Background())
		k.Forget()
		return fmt.Errorf("start %s: %w", a.path, err)
	}
	l.keeper = k
	crash.Here("after-keeper")
	ev, err := k.Receive()
	switch {
	case err != nil:
		k.Close()
		k.Forget()
		return fmt.Errorf("start %s: its keeper died: %w", a.path, err)
	case ev.Failure != nil:
		k.Close()
		k.Ends(context.Background())
		k.Forget()
		return ev.Failure.Err()
	}
	l.pid = ev.PID
	rec, err := l.o.dir.Read(l.rec.ID)
	if err == nil {
		l.rec = rec
		if rec.Leader != nil {
			// A handle of our own; the leader may have ended by now.
			if p, err := host.Recognise(*rec.Leader); err == nil {
				l.proc = p
			}
		}
	}
	l.o.tasks.Go(l.watchKept)
	return nil
}
