package foreground

import (
	"context"
	"errors"
	"os"

	"github.com/custody-project/custody/internal/host"
)

// What works for its parent ends with it: a program that is killed can't end
// the commands it was waiting on.

// ErrParentDied is the cause of a context of WithParent whose parent died.
var ErrParentDied = errors.New("our parent has died")

// WithParent returns a context that is done when our parent dies. Where the
// parent can't be told, because it is outside our PID namespace or the system
// is not Linux, that is never.
//
// The error matches ErrParentDied if it is dead already.
func WithParent(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(nil) }
	dead, err := parentDeath(ctx)
	if err != nil {
		stop()
		return nil, nil, err
	}
	go func() {
		select {
		case <-dead:
			cancel(ErrParentDied)
		case <-ctx.Done():
		}
	}()
	return ctx, stop, nil
}

// parentDeath is closed when our parent dies, nil if it can't be told.
func parentDeath(ctx context.Context) (<-chan struct{}, error) {
	p, err := host.Parent()
	switch {
	case errors.Is(err, host.ErrUnsupported):
		return nil, nil // a parent outside our PID namespace: we are its init
	case errors.Is(err, os.ErrProcessDone):
		return nil, ErrParentDied
	case err != nil:
		return nil, err
	}
	dead := make(chan struct{})
	go func() {
		defer p.Close()
		if p.WaitExit(ctx) == nil {
			close(dead)
		}
	}()
	return dead, nil
}
