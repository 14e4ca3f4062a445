package custody

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/custody-project/custody/internal/ledger"
)

// Readiness as it is seen by who is not the owner: a program that keeps its
// launches by the custody command, and finds one that is still loading.

// WaitReady waits until a launch of any owner is ready, by its id, an
// unambiguous start of it, or its name, as Launch.WaitReady does. Nothing given
// means every port that the launch has reserved.
//
// The error matches ErrNotFound if no record names the launch,
// errors.ErrUnsupported if it is a container, else it is as of Launch.WaitReady,
// without the State.
func WaitReady(ctx context.Context, launch string, opt ListOptions, ready ...Ready) error {
	v, d, err := find(ctx, launch, opt)
	if err != nil {
		return err
	}
	if v.rec.Container != nil {
		d.Close()
		return fmt.Errorf("wait for launch %s: it is a container, whose listeners can't be proven from here: %w", v.rec.ID.Short(), errors.ErrUnsupported)
	}
	asked := &watch{dir: d, rec: v.rec, here: v.here}
	defer asked.close()
	d, err = ledger.OpenOwnerAt(v.dir.Path())
	if err != nil {
		return fmt.Errorf("wait for launch %s: %w", v.rec.ID.Short(), err)
	}
	if len(ready) == 0 {
		for _, n := range v.rec.Ports {
			ready = append(ready, Ready{Port: n})
		}
	}
	if len(ready) == 0 {
		d.Close()
		return fmt.Errorf("wait for launch %s: it has reserved no port; say what to wait for", v.rec.ID.Short())
	}
	ended, gone := make(chan struct{}), make(chan struct{})
	s := subject{
		rec: v.rec, here: v.here, all: ListOptions{Dir: opt.Dir, AllowNetworkFS: opt.AllowNetworkFS}, logs: filepath.Dir(d.Path()),
		record: asked.read, ended: ended, gone: gone,
	}
	if v.rec.Linger {
		s.ended = gone
	}
	var exit *ledger.Exit
	var unknown error
	s.how = func(e *NotReadyError) {
		if e.cause = unknown; unknown != nil {
			e.Reason = unknown.Error()
		} else {
			e.Reason = "its leader ended: " + exitOf(exit).String()
		}
	}
	follow, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := &watch{dir: d, rec: v.rec, here: v.here}
		defer w.close()
		if exit, unknown = w.exit(follow); follow.Err() != nil {
			return
		}
		close(ended)
		if w.end(follow) == nil {
			close(gone)
		}
	}()
	defer func() { cancel(); <-done }()
	return s.waitReady(ctx, ready)
}
