package custody

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/logfile"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// What a launch is to be, before anything is done: the intent, and the level it
// can have.

// plan makes the intent; it changes nothing.
func (o *Owner) plan(a startArgs) (*ledger.Record, error) {
	s := a.spec
	phases, death := s.Phases, s.DeathPhases
	if death == nil {
		if death = phases; death == nil {
			death = DefaultDeathPhases()
		}
	}
	if phases == nil {
		phases = DefaultPhases()
	}
	rec := &ledger.Record{
		ID: proof.NewID(), Scope: o.scope, Owner: o.id, Name: s.Name, State: ledger.Intent,
		Labels: s.Labels, OnOwnerDeath: ledger.OnOwnerDeath(s.OnOwnerDeath), Linger: s.Linger,
		Phases: ledgerPhases(phases), DeathPhases: ledgerPhases(death), Require: string(s.Require),
		Host: o.here.Host, Boot: o.here.Boot, PIDNS: o.here.PIDNS, UID: os.Geteuid(),
		IntentTicks: host.StartNow(), Command: brief(a.args), StartedAt: time.Now().UTC(),
	}
	for _, plan := range [][]ledger.Phase{rec.Phases, rec.DeathPhases} {
		if _, err := sweep.Plan(plan); err != nil {
			return nil, err // whoever stops it later could not read it
		}
	}
	if rec.OnOwnerDeath == "" {
		rec.OnOwnerDeath = ledger.Kill
	}
	if rec.OnOwnerDeath == ledger.Survive && !s.Kept {
		return nil, errors.New("a launch that survives its owner needs Kept: somebody must hold the exit status when the owner is gone")
	}
	if s.ScopeUnit && !s.Kept {
		return nil, errors.New("a launch in a scope unit of its own needs Kept: the keeper goes into it first")
	}
	if s.Replace && s.Name == "" {
		return nil, errors.New("a launch that replaces another one needs its Name")
	}
	rec.Ports = slices.Sorted(slices.Values(s.Ports))
	if err := ledger.CheckPorts(rec.Ports); err != nil {
		return nil, err
	}
	if s.Terminal && !s.Kept {
		return nil, errors.New("a launch on the terminal needs Kept")
	}
	if s.Log != nil {
		if !s.Kept {
			return nil, errors.New("a launch with a log needs Kept: somebody must write it when the owner is gone")
		}
		cfg, err := logfile.Config{MaxBytes: s.Log.MaxBytes, Files: s.Log.Files}.WithDefaults()
		if err != nil {
			return nil, err
		}
		rec.Log = &ledger.Log{MaxBytes: cfg.MaxBytes, Files: cfg.Files}
	}
	if err := checkLabels(s.Labels); err != nil {
		return nil, err
	}
	hook, err := planHook(s.StopHook, s.StopHookTimeout)
	if err != nil {
		return nil, err
	}
	rec.StopHook = hook
	asked := contain.AskedOf(a.attr)
	if asked.UID >= 0 {
		rec.UID = asked.UID
	}
	if s.HideArgs && len(a.args) > 1 {
		rec.Command = brief(a.args[:1])
	}
	if len(rec.Command) == 0 {
		rec.Command = []string{a.path}
	}
	if err := o.planLevel(s, asked, rec); err != nil {
		return nil, err
	}
	if !host.Without("brand") {
		rec.Brand, rec.Born = uint64(host.BrandOf(rec.ID)), s.Kept
	}
	for _, name := range s.TempDirs {
		as, err := asset.TempDir("", rec.ID, name)
		if err != nil {
			return nil, err
		}
		rec.Assets = append(rec.Assets, as)
	}
	for _, path := range s.OwnDirs {
		as, err := asset.OwnDir(path, rec.ID, o.store.Path())
		if err != nil {
			return nil, err
		}
		rec.Assets = append(rec.Assets, as)
	}
	for _, as := range rec.Assets {
		if !utf8.ValidString(as.Path) {
			return nil, fmt.Errorf("directory %q: its name is no UTF-8, so no record can name it", as.Path)
		}
	}
	return rec, nil
}

// planLevel chooses the strongest containment that can be had, and refuses if
// that is not enough.
func (o *Owner) planLevel(s *Spec, asked contain.Asked, rec *ledger.Record) error {
	rec.Level = contain.Group
	if s.Kept {
		rec.Level = contain.Lineage
	} else if asked.Group {
		rec.Level = contain.Process
	}
	missing := "lineage needs a kept launch (Kept)"
	if s.Require == LevelJob {
		missing = "job objects are Windows' own"
	}
	if s.Require == LevelPIDNS {
		if !s.Kept {
			missing = "a PID namespace needs a kept launch (Kept)"
		} else if err := host.CanNamespace(); err != nil {
			missing = lacking(err)
		} else {
			rec.Level = contain.PIDNS
			return nil
		}
	}
	if s.ScopeUnit && s.Require == LevelCgroup {
		return nil // enterScope knows what the scope allows, and refuses
	}
	// A cgroup is used wherever one can be had, and said so in the level.
	base, err := o.cgroups.base()
	if s.ScopeUnit {
		err = errors.New("it is made in the scope unit")
	}
	if err == nil && !asked.Cgroup && !s.Kept {
		if err = o.cloneFails(); err != nil {
			err = fmt.Errorf("a child cloned into a cgroup does not live, as where our own cgroup was once killed; a kept launch (Kept) can still have one: %w", err)
		}
	}
	if err == nil && !asked.Cgroup {
		rec.Level, rec.Cgroup = contain.CgroupL, &ledger.Cgroup{Path: contain.CgroupPath(base, rec.ID)}
	} else if err != nil && s.Require == LevelCgroup {
		missing = lacking(err)
	}
	if asked.Cgroup && s.Require == LevelCgroup {
		missing = "the command's own attributes put it in another cgroup (UseCgroupFD)"
	}
	if !contain.AtLeast(rec.Level, string(s.Require)) {
		return &LevelError{Required: s.Require, Available: Level(rec.Level), Missing: missing}
	}
	return nil
}
