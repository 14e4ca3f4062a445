package custody

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/engine"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// What is the matter with a launch that is a container, and how its end is
// learnt: its engine is asked, which also keeps its exit status.

// ContainerInfo is what can be told of a launch's container.
type ContainerInfo struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Image    string `json:"image"`
	Engine   string `json:"engine"`
	Endpoint string `json:"endpoint"`
	State    string `json:"state,omitempty"` // the engine's word: created, running, paused, exited
	PID      int    `json:"pid,omitempty"`   // of its first process, as the engine numbers it
}

func containerInfo(r *ledger.Record, s *contain.Sighting) *ContainerInfo {
	c := r.Container
	info := &ContainerInfo{ID: c.ID, Name: c.Name, Image: c.Image, Engine: c.Engine, Endpoint: c.Endpoint}
	if s.Container != nil && s.Verdict == proof.Owned {
		info.ID, info.State, info.PID = s.Container.ID, s.Container.State, s.Container.PID
	}
	return info
}

// Container returns which container the launch is, as recorded; nil if it is
// none.
func (l *Launch) Container() *ContainerInfo {
	if l.rec.Container == nil {
		return nil
	}
	return containerInfo(l.rec, &contain.Sighting{})
}

// container tells of the container, and reports whether that is all there is
// to tell.
func (st *Status) container(r *ledger.Record, s *contain.Sighting) bool {
	st.Container = containerInfo(r, s)
	if s.Verdict != proof.Owned {
		return false
	}
	st.Reason = s.Reason
	switch {
	case s.Container.Live:
		st.State, st.PID = StateRunning, s.Container.PID
	case s.Container.Exit != nil:
		st.State, st.Exit, st.LeaderGone = StateExited, exitOf(s.Container.Exit), true
	default:
		st.State = StateGone
		st.Reason += ", and never ran"
	}
	return true
}

// ContainerExit returns how the container of a launch ended, once Exited is
// closed: what Wait can't tell of it.
func (l *Launch) ContainerExit() (Exit, bool) {
	select {
	case <-l.exited:
		if l.exit != nil {
			return *exitOf(l.exit), true
		}
	default:
	}
	return Exit{}, false
}

func (l *Launch) setExit(x *ledger.Exit) {
	if l.rec.Container != nil {
		l.exit = x
	}
}

// toldAtStop is how a container ended that our own stop has removed.
func (l *Launch) toldAtStop() *ledger.Exit {
	l.mu.Lock()
	s := l.current
	l.mu.Unlock()
	if s != nil {
		<-s.done
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

// patience is how long an engine that does not answer is borne: one that is
// started anew comes back.
const patience = time.Minute

// containerExit waits for the end of a container.
func (w *watch) containerExit(ctx context.Context) (*ledger.Exit, error) {
	c, err := engine.Registered()
	if err != nil {
		return nil, err
	}
	var told *ledger.Exit // without what only a look tells
	for end := time.Now().Add(patience); ; {
		// Asked before the record is read: how it ended is written before it
		// is removed.
		s, err := contain.Of(w.rec, w.here, nil).Look(false)
		if err != nil {
			return nil, err
		}
		r, err := w.read()
		switch {
		case err == nil && r.Exit != nil:
			return r.Exit, nil
		case s.Verdict == proof.Owned && s.Container.Exit != nil:
			return s.Container.Exit, nil
		case s.Verdict == proof.Gone && told != nil:
			return told, nil // somebody removed it at once
		case s.Verdict == proof.Gone || err == nil && r.State == ledger.Ended:
			return nil, fmt.Errorf("the container is gone: %w", ErrStatusUnknown)
		case s.Verdict == proof.Foreign || s.Verdict == proof.Unsure && time.Now().After(end):
			return nil, fmt.Errorf("%s: %s", s.Verdict, s.Reason)
		}
		if s.Verdict == proof.Owned {
			end = time.Now().Add(patience)
			if s.Container.Live {
				if told, err = c.Wait(ctx, w.rec.Container, s.Container.ID); err == nil {
					continue
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// containerEnd waits until the record of a container's launch has ended. The
// container stays until somebody stops it, so there is nothing to hear of it.
func (w *watch) containerEnd(ctx context.Context) error {
	for {
		r, err := w.read()
		if errors.Is(err, fs.ErrNotExist) || err == nil && r.State == ledger.Ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Second):
		}
	}
}

// containerLogs copies what the launch's container wrote, to both its outputs.
func (w *watch) containerLogs(ctx context.Context, out io.Writer, opt LogOptions) error {
	c, err := engine.Registered()
	switch {
	case err != nil:
		return err
	case w.rec.State == ledger.Ended:
		return fmt.Errorf("the container was removed, and what it wrote with it: %w", ErrNoLog)
	case w.rec.Container.ID == "":
		return errors.New("it has not started yet")
	}
	o := engine.LogOptions{Follow: opt.Follow, Tail: max(opt.Last, 0)}
	if opt.Last < 0 {
		o.Since = time.Now()
	}
	return c.Logs(ctx, w.rec.Container, w.rec.Container.ID, o, out, out)
}
