package custody

import (
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/helper"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
)

// The start of a direct launch: a child of this process.

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
