package custody

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/engine"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// The start of a launch that is a container, in the order that makes a crash
// at any step harmless: intent on disk, name, container with the launch's
// label, its id on disk, start, and that on disk. Every step has a name at
// which a test kills the owner.

// StartContainer is for package container, whose Start it carries out: nobody
// else can make a plan.
func (o *Owner) StartContainer(ctx context.Context, p engine.Plan) (*Launch, error) {
	if err := o.begin(); err != nil {
		return nil, err
	}
	defer o.starting.Done()
	rec, err := o.planContainer(p)
	if err != nil {
		return nil, err
	}
	if rec.OnOwnerDeath == ledger.Kill {
		if err := o.watched(); err != nil {
			return nil, err
		}
	}
	begun := o.launching(rec.ID)
	defer begun()
	crash.Here("container-before-intent")
	if err := o.dir.Write(rec); err != nil {
		return nil, err
	}
	crash.Here("container-after-intent")
	err = o.makeContainer(ctx, p, rec)
	if err == nil {
		crash.Here("container-after-start")
		begun()
		l, fresh, err := o.adopted(rec)
		if fresh {
			o.event(Event{Kind: LaunchStarted, Launch: rec.ID, Name: rec.Name})
			o.tasks.Go(l.watchAdopted)
		}
		return l, err
	}
	if errors.Is(err, engine.ErrRefused) && rec.Container.ID == "" {
		// For certain there is none, so there is nothing to look for.
		err = errors.Join(err, o.dir.Remove(rec.ID))
		if rec.Name != "" {
			o.dir.ReleaseName(rec.Name, rec.ID)
		}
		o.dir.ReleasePorts(rec.Ports, rec.ID)
		return nil, err
	}
	// What was made is taken back; what can't be stays recorded.
	if res := sweep.End(context.WithoutCancel(ctx), o.dir, rec.ID, o.here, sweep.Options{Known: rec, Failed: true}); res.Reason != "" && res.Verdict != proof.Gone {
		err = fmt.Errorf("%w; it could not be taken back: %s", err, res.Reason)
	}
	return nil, err
}

// planContainer makes the intent; it changes nothing.
func (o *Owner) planContainer(p engine.Plan) (*ledger.Record, error) {
	rec := &ledger.Record{
		ID: proof.NewID(), Scope: o.scope, Owner: o.id, Name: p.Name, State: ledger.Intent,
		// It stays when its process has ended: its engine has what that wrote.
		Linger: true,
		Labels: p.Labels, OnOwnerDeath: p.OnOwnerDeath, Phases: p.Phases, DeathPhases: p.DeathPhases,
		Level: ledger.ContainerLevel, Host: o.here.Host, Boot: o.here.Boot, PIDNS: o.here.PIDNS, UID: os.Geteuid(),
		IntentTicks: host.StartNow(), Command: brief(p.Command), StartedAt: time.Now().UTC(),
	}
	c := p.Container
	c.Label = ledger.LaunchLabel + "=" + rec.ID.String()
	rec.Container = &c
	if c.Name == "" {
		c.Name = "custody-" + rec.ID.String()[:12]
	}
	for _, plan := range [][]ledger.Phase{rec.Phases, rec.DeathPhases} {
		if _, err := sweep.Plan(plan); err != nil {
			return nil, err
		}
	}
	rec.Ports = slices.Sorted(slices.Values(p.Ports))
	return rec, errors.Join(ledger.CheckPorts(rec.Ports), checkLabels(p.Labels))
}

func (o *Owner) makeContainer(ctx context.Context, p engine.Plan, rec *ledger.Record) error {
	if rec.Name != "" {
		if err := o.claim(ctx, rec, p.WaitName, p.Replace); err != nil {
			return engine.Refused(err)
		}
		crash.Here("container-after-name")
	}
	if err := o.takePorts(ctx, rec); err != nil {
		return engine.Refused(err)
	}
	// Whoever stops it meanwhile waits until it is recorded what was made.
	release, err := o.dir.HoldStop(ctx, rec.ID)
	if err != nil {
		return engine.Refused(err)
	}
	unlock := sync.OnceFunc(release)
	defer unlock()
	if !o.dir.Has(rec.ID) {
		return ErrStoppedEarly
	}
	rec.IntentTicks = host.StartNow() // it may have waited for its name
	if err := o.dir.Rewrite(rec); err != nil {
		return engine.Refused(err)
	}
	crash.Here("container-before-create")
	id, err := p.Create(ctx, rec)
	if err != nil {
		return err
	}
	crash.Here("container-after-create")
	rec.Container.ID = id
	if err := o.dir.Rewrite(rec); err != nil {
		return err
	}
	crash.Here("container-after-record")
	if err := p.Begin(ctx, rec); err != nil {
		return err
	}
	crash.Here("container-after-begin")
	rec.State = ledger.Running
	return o.dir.Rewrite(rec)
}

// ContainerRecord is for package container: the record of a launch that is one.
func ContainerRecord(ctx context.Context, launch string, opt ListOptions) (*ledger.Record, error) {
	v, d, err := find(ctx, launch, opt)
	if err != nil {
		return nil, err
	}
	d.Close()
	if v.rec.Container == nil {
		return nil, fmt.Errorf("launch %s is no container", v.rec.ID.Short())
	}
	return v.rec, nil
}
