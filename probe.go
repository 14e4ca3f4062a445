package custody

import (
	"errors"
	"os/exec"
	"sync"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/helper"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// A process that sits in a cgroup that was ever killed has its children killed
// when they are cloned into another cgroup, even a fresh one (measured on
// Linux 6.18). So the first launch with a cgroup tries it out once with a
// child that ends at once; where it is killed, kept launches join their cgroup
// by cgroup.procs before the command runs, and direct ones do without.

type cloneProbe struct {
	mu    sync.Mutex
	known bool
	err   error
}

// cloneFails returns nil if a child survives being cloned into a fresh cgroup,
// else what became of it. Only what a child's end told is remembered: too many
// open files, say, is no answer. Without a helper nobody can try, and it is
// taken to work, as it does nearly everywhere.
func (o *Owner) cloneFails() error {
	o.probe.mu.Lock()
	defer o.probe.mu.Unlock()
	if o.probe.known {
		return o.probe.err
	}
	err := o.tryClone()
	if errors.Is(err, helper.ErrNoHelper) {
		err = nil
	}
	var ended *exec.ExitError
	o.probe.known, o.probe.err = err == nil || errors.As(err, &ended), err
	return err
}

func (o *Owner) tryClone() error {
	base, err := o.cgroups.base()
	if err != nil {
		return err
	}
	c := &ledger.Cgroup{Path: contain.CgroupPath(base, proof.NewID())}
	if err := contain.MakeCgroup(c); err != nil {
		return err
	}
	defer contain.RemoveCgroup(c)
	return o.helper.Probe(c.Path)
}

// joins tells whether a kept launch enters its cgroup by cgroup.procs.
func (o *Owner) joins() bool { return o.cloneFails() != nil }

// cgroups remembers where launches have their cgroups: to find out costs as
// much as a fork. A directory that fails is asked for anew (forget), and one
// that was not to be had is after some seconds.
type cgroups struct {
	mu    sync.Mutex
	path  string
	err   error
	asked time.Time
}

func (c *cgroups) base() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.IsZero() || c.err != nil && time.Since(c.asked) > 5*time.Second {
		c.path, c.err = host.CgroupBase()
		c.asked = time.Now()
	}
	return c.path, c.err
}

func (c *cgroups) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = time.Time{}
}
