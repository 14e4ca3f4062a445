package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/engine"
)

// Launch is one container in custody. Its methods may be called from several
// goroutines.
//
// A container that has ended stays, with its exit status and what it wrote,
// until it is stopped, its owner closes, or a sweep after its owner's death
// removes it.
type Launch struct {
	*custody.Launch
	opt custody.ListOptions
}

func launchOf(o *custody.Owner, l *custody.Launch) *Launch {
	return &Launch{l, custody.ListOptions{Dir: o.Dir(), Scope: o.Scope(), AllowNetworkFS: true}}
}

// Adopt takes over a container that outlived its owner; see Owner.Adopt.
func Adopt(ctx context.Context, o *custody.Owner, launch string) (*Launch, error) {
	l, err := o.Adopt(ctx, launch)
	if err != nil {
		return nil, err
	}
	if l.Level() != custody.LevelContainer {
		return nil, fmt.Errorf("launch %s is no container; it is adopted, and Owner.Adopt returns it", l.ID().Short())
	}
	return launchOf(o, l), nil
}

// ContainerID returns the engine's id of the container.
func (l *Launch) ContainerID() string { return l.Container().ID }

// Status looks at the container and changes nothing. The error matches
// custody.ErrNotFound once its record has ended.
func (l *Launch) Status(ctx context.Context) (custody.Status, error) {
	return custody.StatusOf(ctx, l.ID().String(), l.opt)
}

// Exit waits until the container has ended and returns how. Wait does too, in
// the words of os/exec.
//
// The error matches custody.ErrStatusUnknown if the container was removed
// before anybody read how it ended, or is the context's.
func (l *Launch) Exit(ctx context.Context) (custody.Exit, error) {
	_, err := l.Wait(ctx)
	if x, ok := l.ContainerExit(); ok {
		return x, nil
	}
	return custody.Exit{}, err
}

// Logs writes what the container wrote; see the function of that name.
func (l *Launch) Logs(ctx context.Context, opt LogOptions, stdout, stderr io.Writer) error {
	return Logs(ctx, l.ID().String(), l.opt, opt, stdout, stderr)
}

// LogOptions say which lines Logs writes.
type LogOptions struct {
	Follow bool      // go on until the container ends or the context is done
	Tail   int       // the last so many lines; 0: all
	Since  time.Time // zero: from the beginning
}

// Logs writes what a container of any owner wrote to its two outputs. The
// engine keeps that until the container is removed. Podman 4 may miss the last
// of it when it follows.
//
// The error matches custody.ErrNotFound if no record names the launch.
func Logs(ctx context.Context, launch string, at custody.ListOptions, opt LogOptions, stdout, stderr io.Writer) error {
	rec, err := custody.ContainerRecord(ctx, launch, at)
	if err != nil {
		return err
	}
	c, err := engine.Registered()
	if err == nil && rec.Container.ID == "" {
		err = errors.New("it has not started yet")
	}
	if err == nil {
		err = c.Logs(ctx, rec.Container, rec.Container.ID, engine.LogOptions(opt), stdout, stderr)
	}
	if err != nil {
		return fmt.Errorf("logs of launch %s: %w", rec.ID.Short(), err)
	}
	return nil
}
