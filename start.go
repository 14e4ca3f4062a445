package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
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

	defer o.launching(rec.ID)()
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
