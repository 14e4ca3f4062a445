package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/helper"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/logfile"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// The start of a launch, in the order that makes a crash at any step
// harmless: intent on disk, name, directories and cgroup, fork, identity on
// disk. Every step has a name at which a test kills the owner.

type startArgs struct {
	ctx   context.Context
	spec  *Spec
	path  string
	args  []string
	env   []string
	dir   string
	std   [3]*os.File
	extra []*os.File
	attr  *syscall.SysProcAttr
	cmd   *exec.Cmd // a caller's own command, which the caller waits for
}

// Start launches an existing exec.Cmd directly. The caller goes on using cmd,
// and calls cmd.Wait; custody records the tree, and stops what is left of it
// when the leader has exited. It sets cmd.Env, cmd.Args and cmd.SysProcAttr.
func (o *Owner) Start(cmd *exec.Cmd, spec Spec) (*Launch, error) {
	switch {
	case cmd.Err != nil:
		return nil, cmd.Err
	case spec.Kept || spec.Terminal:
		return nil, errors.New("custody: a kept launch needs a Cmd of Owner.Command: an exec.Cmd can only fork by itself")
	}
	if err := o.begin(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	defer o.starting.Done()
	return o.start(startArgs{spec: &spec, path: cmd.Path, args: cmd.Args, env: cmd.Environ(), dir: cmd.Dir, attr: cmd.SysProcAttr, cmd: cmd})
}

// start is one start, between begin and starting.Done.
func (o *Owner) start(a startArgs) (*Launch, error) {
	fail := func(err error) (*Launch, error) { return nil, fmt.Errorf("start %s: %w", a.path, err) }
	if a.dir != "" && a.attr == nil {
		// A child's failed chdir can't be told from its failed execve. As
		// os.StartProcess does, look before.
		if _, err := os.Stat(a.dir); err != nil {
			return nil, &os.PathError{Op: "chdir", Path: a.dir, Err: errors.Unwrap(err)}
		}
	}
	rec, err := o.plan(a)
	if err != nil {
		return fail(err)
	}
	if a.ctx == nil {
		a.ctx = context.Background()
	}
	if !a.spec.Kept && rec.OnOwnerDeath == ledger.Kill {
		if err := o.watched(); err != nil {
			return fail(err)
		}
	}
	if err := o.look(a.ctx, rec, a.spec); err != nil {
		return fail(err)
	}
	l := &Launch{o: o, rec: rec, spec: *a.spec, exited: make(chan struct{}), gone: make(chan struct{})}
	l.ctx, l.cancelTasks = context.WithCancel(context.Background())

	o.mu.Lock()
	o.begun[rec.ID] = true // nobody is to take it for one that was adopted
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		delete(o.begun, rec.ID)
		o.mu.Unlock()
	}()
	crash.Here("before-intent")
	if err := o.dir.Write(rec); err != nil {
		return fail(err)
	}
	crash.Here("after-intent")
	err = o.prepare(a, rec)
	if now := host.StartNow(); err == nil && now > rec.IntentTicks+20 {
		// It waited, for its name mostly: what is found after a crash is
		// compared with the moment of the fork.
		rec.IntentTicks = now
		err = o.dir.Rewrite(rec)
	}
	if err == nil {
		crash.Here("before-fork")
		if a.spec.Kept {
			err = l.startKept(a)
		} else {
			err = l.startDirect(a)
		}
	}
	if err != nil {
		// Nothing ran, or it was stopped: what was made is taken back.
		_, gone := o.dir.Read(rec.ID)
		l.undo()
		if errors.Is(gone, fs.ErrNotExist) {
			// Not an error of ours: somebody ended the intent meanwhile.
			return fail(ErrStoppedEarly)
		}
		return nil, err
	}
	crash.Here("after-start")
	o.mu.Lock()
	select {
	case <-l.gone: // already
	default:
		o.launches[rec.ID] = l
	}
	o.mu.Unlock()
	o.event(Event{Kind: LaunchStarted, Launch: rec.ID, Name: rec.Name, PID: l.pid})
	return l, nil
}

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
	if s.Require == LevelPIDNS {
		if !s.Kept {
			missing = "a PID namespace needs a kept launch (Kept)"
		} else if err := host.CanNamespace(); err != nil {
			missing = err.Error()
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
		missing = err.Error()
	}
	if asked.Cgroup && s.Require == LevelCgroup {
		missing = "the command's own attributes put it in another cgroup (UseCgroupFD)"
	}
	if !contain.AtLeast(rec.Level, string(s.Require)) {
		return &LevelError{Required: s.Require, Available: Level(rec.Level), Missing: missing}
	}
	return nil
}

// prepare takes name and ports, and makes directories and cgroup.
func (o *Owner) prepare(a startArgs, rec *ledger.Record) error {
	if rec.Name != "" {
		if err := o.claim(a, rec); err != nil {
			return err
		}
		crash.Here("after-name")
	}
	if err := o.takePorts(a.ctx, rec); err != nil {
		return err
	}
	if len(rec.Ports) > 0 {
		crash.Here("after-port")
	}
	for i := range rec.Assets {
		if err := asset.Make(&rec.Assets[i]); err != nil {
			return err
		}
		crash.Here("after-dir")
	}
	if rec.Cgroup != nil {
		err := contain.MakeCgroup(rec.Cgroup)
		if err != nil {
			// We may have been moved since the place was found.
			o.cgroups.forget()
			if base, e := o.cgroups.base(); e == nil && contain.CgroupPath(base, rec.ID) != rec.Cgroup.Path {
				rec.Cgroup.Path = contain.CgroupPath(base, rec.ID)
				if err = o.dir.Rewrite(rec); err == nil { // before it is made, as ever
					err = contain.MakeCgroup(rec.Cgroup)
				}
			}
		}
		if err != nil && !contain.AtLeast(map[bool]string{true: contain.Lineage, false: contain.Group}[a.spec.Kept], rec.Require) {
			return &LevelError{Required: Level(rec.Require), Available: LevelGroup, Missing: err.Error()}
		}
		if err != nil {
			rec.Cgroup, rec.Level = nil, contain.Group
			if a.spec.Kept {
				rec.Level = contain.Lineage
			}
		}
		crash.Here("after-cgroup")
	}
	if len(rec.Assets) > 0 || rec.Cgroup != nil {
		if a.spec.Kept {
			return o.dir.Rewrite(rec) // the keeper goes on with the record
		}
	}
	return nil
}

// claim takes the launch's name, waiting for it if asked to. It replaces at
// most one launch: of several that replace the same one, one gets the name.
func (o *Owner) claim(a startArgs, rec *ledger.Record) error {
	pause, replaced := 10*time.Millisecond, false
	for {
		err := o.store.ClaimName(o.scope, rec.Name, ledger.Claim{Owner: o.id, Launch: rec.ID})
		var held *ledger.NameHeldError
		if !errors.As(err, &held) {
			return err
		}
		if a.spec.Replace && held.Reason == "" && !replaced {
			replaced = true
			if err := o.replace(a.ctx, held.Holder, rec); err != nil {
				return err
			}
			continue
		}
		if !a.spec.WaitName || held.Reason != "" {
			return &NameHeldError{Scope: o.scope, Name: rec.Name, Holder: held.Holder.Launch, text: held.Error()}
		}
		select {
		case <-o.closing.Done():
			return ErrClosed
		case <-a.ctx.Done():
			return fmt.Errorf("%w: %w", &NameHeldError{Scope: o.scope, Name: rec.Name, Holder: held.Holder.Launch, text: held.Error()}, a.ctx.Err())
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
		// The holder's owner may have died meanwhile.
		if held.Holder.Owner != o.id {
			ctx, cancel := context.WithCancel(a.ctx)
			listened := context.AfterFunc(o.closing, cancel)
			Sweep(ctx, SweepOptions{Dir: o.store.Path(), Scope: o.scope, AllowNetworkFS: o.opt.AllowNetworkFS})
			listened()
			cancel()
		}
	}
}

// dress puts the cookie and the directories into environment and arguments.
func dress(rec *ledger.Record, env, args []string) (envOut, argsOut []string) {
	envOut = make([]string, 0, len(env)+2+len(rec.Assets))
	for _, kv := range env {
		if !strings.HasPrefix(kv, contain.CookieEnv+"=") {
			envOut = append(envOut, kv)
		}
	}
	envOut = append(envOut, contain.CookieEnv+"="+rec.ID.String())
	argsOut = append([]string{}, args...)
	for _, a := range rec.Assets {
		if a.Env == "" {
			continue
		}
		envOut = append(envOut, a.Env+"="+asset.Inside(a))
		for i := range argsOut {
			if i > 0 {
				argsOut[i] = strings.ReplaceAll(argsOut[i], "{"+a.Env+"}", asset.Inside(a))
			}
		}
	}
	return envOut, argsOut
}

// startDirect forks the leader as a child of this process.
func (l *Launch) startDirect(a startArgs) error {
	c := a.cmd
	if c == nil {
		c = &exec.Cmd{Path: a.path, Dir: a.dir, ExtraFiles: a.extra, SysProcAttr: a.attr}
		if a.std[0] != nil {
			c.Stdin = a.std[0]
		}
		if a.std[1] != nil {
			c.Stdout = a.std[1]
		}
		if a.std[2] != nil {
			c.Stderr = a.std[2]
		}
		l.cmd = c
	}
	c.Env, c.Args = dress(l.rec, a.env, a.args)
	cgroup := ""
	if l.rec.Cgroup != nil {
		cgroup = l.rec.Cgroup.Path
	}
	d, err := contain.PrepareDirect(c, cgroup)
	if err != nil {
		return err
	}
	defer d.Close()
	if !contain.AtLeast(d.Level, l.rec.Require) {
		return &LevelError{Required: Level(l.rec.Require), Available: Level(d.Level), Missing: "the command's own attributes"}
	}
	// Nobody is to stop it between the look at its record and the next one
	// written: then its record would be gone and its name free.
	release, err := l.o.dir.HoldStop(l.o.ctx, l.rec.ID)
	if err != nil {
		return fmt.Errorf("start %s: %w", a.path, err)
	}
	unlock := sync.OnceFunc(release)
	defer unlock()
	if !l.o.dir.Has(l.rec.ID) {
		return fmt.Errorf("start %s: %w", a.path, ErrStoppedEarly)
	}
	helper.CleanMask(func() { err = c.Start() })
	if err != nil {
		return err
	}
	crash.Here("after-fork")
	l.pid = c.Process.Pid
	l.proc, err = d.Process(l.pid)
	if l.rec.Brand != 0 && (err != nil || host.Mark(l.proc, host.Brand(l.rec.Brand)) != nil) {
		l.rec.Brand = 0 // ended already, or not ours to mark (set-uid)
	}
	crash.Here("after-brand")
	if err == nil {
		err = l.identify()
	}
	if err == nil {
		if l.rec.Brand != 0 {
			host.MarkBelow(l.proc, host.Brand(l.rec.Brand))
		}
		l.rec.State, l.rec.Level = ledger.Running, d.Level
		err = l.o.dir.Write(l.rec)
	}
	if err != nil {
		// User code runs and can't be written down: it must not stay.
		unlock()
		l.endChild(c)
		return fmt.Errorf("start %s: %w", a.path, err)
	}
	crash.Here("after-record")
	l.o.tasks.Go(l.watchDirect)
	return nil
}

// identify learns the leader's identity. It is our unreaped child, so its
// number is still its own.
func (l *Launch) identify() error {
	id, err := l.proc.Identity()
	if err != nil {
		return err
	}
	l.rec.Leader = &id
	return nil
}

// endChild ends and collects a child that could not be written down. One that
// can't be ended (an uninterruptible one) is not waited for.
func (l *Launch) endChild(c *exec.Cmd) {
	if l.rec.Leader != nil {
		l.endNow()
	}
	if l.proc != nil {
		stop.EndChild(l.proc) // it has ended, or it does now
	}
	done := make(chan struct{})
	go func() { defer close(done); c.Wait() }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
	}
}

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
