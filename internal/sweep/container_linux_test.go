package sweep

// A container between two looks: somebody started it again. An engine that
// answers what it is told forces the moment, which a real one has only by
// chance.

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/custody-project/custody/internal/engine"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// oneContainer is an engine with one container, which does not run for the
// first looks.
type oneContainer struct {
	mu    sync.Mutex
	rest  int // looks before it runs
	acted []string
}

func (e *oneContainer) Look(_ context.Context, r *ledger.Record) engine.Sight {
	e.mu.Lock()
	defer e.mu.Unlock()
	yes := func(f proof.Fact) proof.Evidence { return proof.Evidence{Fact: f, Source: "test", Holds: proof.Yes} }
	s := engine.Sight{Facts: []proof.Evidence{yes(proof.Engine), yes(proof.Container), yes(proof.Label)}, ID: r.Container.ID}
	if e.rest > 0 {
		e.rest--
		s.State, s.Exit = "exited", &ledger.Exit{Code: 3, Status: 3 << 8}
	} else {
		s.State, s.Live = "running", true
	}
	return s
}

func (e *oneContainer) act(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.acted = append(e.acted, what)
}

func (e *oneContainer) Signal(_ context.Context, _ *ledger.Container, _, signal string) error {
	e.act(signal)
	return nil
}

func (e *oneContainer) Remove(context.Context, *ledger.Container, string) error {
	e.act("remove")
	return errors.New("it runs")
}

func (e *oneContainer) Wait(context.Context, *ledger.Container, string) (*ledger.Exit, error) {
	return nil, nil
}

func (e *oneContainer) Logs(context.Context, *ledger.Container, string, engine.LogOptions, io.Writer, io.Writer) error {
	return nil
}

// One that is to live on, and is started anew while a sweep looks or would
// remove it, is not signalled, and its earlier end is not taken for its own.
func TestContainerStartedAnew(t *testing.T) {
	for looks := 1; looks <= 2; looks++ {
		w := newWorld(t)
		e := &oneContainer{rest: looks}
		engine.Register(e)
		d := w.owner(nil)
		r := w.record(d, w.victim(), func(r *ledger.Record) {
			r.Leader, r.Level, r.OnOwnerDeath = nil, ledger.ContainerLevel, ledger.Survive
			r.Container = &ledger.Container{Engine: "e", Endpoint: "unix:///e", ID: strings.Repeat("0123456789abcdef", 4), Name: "n", Image: "i",
				Label: ledger.LaunchLabel + "=" + r.ID.String()}
		})
		rep := w.sweep(Request{})
		if len(rep.Results) != 1 || rep.Results[0].Outcome != Survives {
			t.Errorf("after %d looks: %+v", looks, rep)
		}
		if s := strings.ReplaceAll(strings.Join(e.acted, " "), "remove", ""); s != "" {
			t.Errorf("after %d looks: it got %v", looks, e.acted)
		}
		if now, err := d.Read(r.ID); err != nil || now.State != ledger.Running || now.Exit != nil {
			t.Errorf("after %d looks: record: %+v, %v", looks, now, err)
		}
	}
}
