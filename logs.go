package custody

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/logfile"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// LogOptions say what Logs copies. The zero value is all that there is of the
// log, in any scope of the default state directory.
type LogOptions struct {
	Dir            string
	Scope          string
	AllowNetworkFS bool
	Last           int  // lines: the last so many; 0: all, negative: none of what is there
	Follow         bool // go on until the launch has ended and all was copied
}

// ErrNoLog is matched by the error of Logs for a launch that keeps no log: its
// output went where its starter sent it.
var ErrNoLog = errors.New("it keeps no log")

// Logs copies the log of a launch of any owner to out, by the launch's id, an
// unambiguous start of it, or its name. Lines that begin with "[custody: " are
// ours: they tell of output that a full disk lost, or that was rotated away
// before it could be copied. What a container wrote its engine keeps, until it
// is removed. How slow out is never holds up the launch.
//
// The error matches ErrNotFound if no record names the launch, ErrNoLog if it
// keeps none, or is that of out or of the context.
func Logs(ctx context.Context, launch string, out io.Writer, opt LogOptions) error {
	v, d, err := find(ctx, launch, ListOptions{Dir: opt.Dir, Scope: opt.Scope, AllowNetworkFS: opt.AllowNetworkFS})
	if err != nil {
		return err
	}
	w := &watch{dir: d, rec: v.rec, here: v.here}
	defer w.close()
	fail := func(err error) error { return fmt.Errorf("logs of launch %s: %w", v.rec.ID.Short(), err) }
	if v.rec.Container != nil {
		if err := w.containerLogs(ctx, out, opt); err != nil {
			return fail(err)
		}
		return nil
	}
	if v.rec.Log == nil {
		return fail(ErrNoLog)
	}
	if w.keeper, err = recognise(v.rec, v.rec.Keeper, v.here); err != nil {
		w.keeper = nil
	}
	e := &ending{w: w}
	what := logfile.Reading{Last: opt.Last, Follow: opt.Follow, Ended: e.asked}
	if err := logfile.Copy(ctx, out, filepath.Dir(d.Path()), v.rec.ID, what); err != nil {
		return fail(err)
	}
	return nil
}

// ending tells who follows a log when nothing more will be written.
type ending struct {
	w      *watch
	ended  time.Time // when it was first seen to have ended
	looked time.Time
}

// lastWords is how long a log is read on after its launch has ended: where the
// keeper was killed the spare is still writing down what the pipe held.
const lastWords = 100 * time.Millisecond

func (e *ending) asked() bool {
	if e.ended.IsZero() && e.over() {
		e.ended = time.Now()
	}
	return !e.ended.IsZero() && time.Since(e.ended) >= lastWords
}

// over reports whether the launch has ended: its keeper, which closes the log
// before it ends itself, is gone, and so is the record or all that lived.
func (e *ending) over() bool {
	if e.w.keeperLives() {
		return false
	}
	r, err := e.w.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case err != nil:
		return false
	case r.State == ledger.Ended, !sweep.Local(r, e.w.here):
		return true
	}
	if r.Keeper != nil && (e.w.keeper == nil || host.Lives(*r.Keeper) == proof.No) && time.Since(e.looked) > time.Second {
		e.looked = time.Now()
		if s, err := contain.Of(r, e.w.here, nil).Look(true); err == nil {
			defer s.Close()
			return s.Verdict == proof.Gone
		}
	}
	return false
}
