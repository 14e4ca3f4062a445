package container

import (
	"context"
	"fmt"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/custody-project/custody/internal/engine"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// Looking at a recorded container: every fact is asked of the engine, and an
// answer that could not be had stays unknown.

// Look implements engine.Client.
func (dialer) Look(ctx context.Context, r *ledger.Record) engine.Sight {
	for {
		s := engine.Sight{}
		sure := true
		if sure, s.Err = look(ctx, r, &s); sure || ctx.Err() != nil {
			return s
		}
	}
}

// look is one look. It reports false if it can't be told whether one engine
// gave all the answers; then the next look asks anew who it is.
func look(ctx context.Context, r *ledger.Record, s *engine.Sight) (sure bool, err error) {
	c := r.Container
	to, err := sessionTo(ctx, c.Endpoint)
	if err != nil {
		s.Facts = append(s.Facts, proof.Evidence{Fact: proof.Engine, Source: c.Endpoint})
		return true, err
	}
	defer to.done()
	id, fresh, err := to.engine(ctx)
	if err != nil {
		s.Facts = append(s.Facts, proof.Evidence{Fact: proof.Engine, Source: c.Endpoint})
		return true, err
	}
	s.Facts = append(s.Facts, proof.Evidence{Fact: proof.Engine, Source: "/info of " + c.Endpoint, Holds: proof.Of(id == c.Engine)})
	if id == c.Engine {
		err = lookFor(ctx, to.cli, r, s)
	}
	if sure = fresh && (s.Facts[0].Holds == proof.No || to.same()) || s.ID != "" && to.same(); !sure {
		to.doubt()
		s.Facts = s.Facts[:1]
		s.Facts[0].Holds = proof.Unknown
	}
	return sure, err
}

// lookFor looks for the record's container at the engine that is the recorded
// one.
func lookFor(ctx context.Context, cli *client.Client, r *ledger.Record, s *engine.Sight) error {
	add := func(f proof.Fact, source string, a proof.Answer) {
		s.Facts = append(s.Facts, proof.Evidence{Fact: f, Source: source, Holds: a})
	}
	c := r.Container
	at, source := c.ID, "/containers/ID/json"
	if at == "" {
		source = "/containers/json, by label"
		found, err := byLabel(ctx, cli, c.Label)
		if err == nil && len(found) > 1 {
			err = fmt.Errorf("%d containers carry the label %s", len(found), c.Label)
		}
		if err != nil {
			add(proof.Container, source, proof.Unknown)
			return err
		}
		if len(found) == 0 {
			add(proof.Container, source, proof.No)
			return nil
		}
		at = found[0].ID
	}
	in, err := cli.ContainerInspect(ctx, at, client.ContainerInspectOptions{})
	// An engine takes a name for an id as well: what it found must be it.
	if cerrdefs.IsNotFound(err) || err == nil && in.Container.ID != at {
		add(proof.Container, source, proof.No)
		return nil
	}
	if err == nil && (in.Container.State == nil || in.Container.Config == nil) {
		err = fmt.Errorf("the engine tells nothing of container %s", at)
	}
	if err != nil {
		add(proof.Container, source, proof.Unknown)
		return err
	}
	add(proof.Container, source, proof.Yes)
	add(proof.Label, "its label "+ledger.LaunchLabel, proof.Of(in.Container.Config.Labels[ledger.LaunchLabel] == r.ID.String()))
	s.ID = in.Container.ID
	describe(s, in.Container.State)
	return nil
}

func byLabel(ctx context.Context, cli *client.Client, label string) ([]api.Summary, error) {
	l, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", label)})
	return l.Items, err
}

// atRest are the states in which a container has no process, in the words of
// Docker and of Podman. A word that we don't know is taken for a living one.
var atRest = map[string]bool{"created": true, "exited": true, "dead": true, "removing": true, // Docker
	"configured": true, "initialized": true, "stopped": true} // Podman

func describe(s *engine.Sight, st *api.State) {
	s.State = string(st.Status)
	s.Live = st.Running || st.Paused || st.Restarting || !atRest[s.State]
	s.PID = st.Pid
	if ran, err := time.Parse(time.RFC3339Nano, st.StartedAt); s.Live || err != nil || ran.Year() < 1971 {
		return
	}
	s.Exit = exitOf(st.ExitCode)
	s.Exit.OOM = st.OOMKilled
}

// exitOf reads an engine's status. It has one number for two ends: 128 and n
// is what a program gets that signal n ended, and one that exits with that
// number itself.
func exitOf(code int) *ledger.Exit {
	e := &ledger.Exit{Code: code, Status: uint32(code&0xff) << 8}
	if n := code - 128; n > 0 && n <= 64 {
		e.Signal, e.Status = stop.SignalName(syscall.Signal(n)), uint32(n)
	}
	return e
}
