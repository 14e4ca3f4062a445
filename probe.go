package custody

import (
	"sync"
	"time"

	"github.com/custody-project/custody/internal/contain"
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
	once sync.Once
	err  error
}

// cloneWorks tells whether a child survives being cloned into a fresh cgroup.
func (o *Owner) cloneWorks() bool {
	o.probe.once.Do(func() {
		id := proof.NewID()
		base, err := o.cgroups.base()
		if err != nil {
			o.probe.err = err
			return
		}
		c := &ledger.Cgroup{Path: contain.CgroupPath(base, id)}
		if o.probe.err = contain.MakeCgroup(c); o.probe.err != nil {
			return
		}
		defer contain.RemoveCgroup(c)
		o.probe.err = o.helper.Probe(c.Path)
	})
	return o.probe.err == nil
}

// joins tells whether a kept launch enters its cgroup by cgroup.procs.
func (o *Owner) joins() bool { return !o.cloneWorks() }

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
