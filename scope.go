package custody

import (
	"context"
	"strings"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/unit"
)

// A scope unit of its own for a launch. The keeper is put into it while it
// waits for its orders, so that leader and tree are born inside.

// enterScope puts the keeper, and who else stands above the tree, into a fresh
// scope, and makes the launch's cgroup
// there: below the scope, which systemd delegates to us, since what is not
// delegated has one writer, and that is systemd. Where it is not, the level is
// what the keeper can do alone.
func (l *Launch) enterScope(ctx context.Context, above []int) error {
	var patience time.Duration
	for _, p := range l.rec.DeathPhases {
		patience += p.Wait
	}
	err := (unit.Surroundings{}).StartScope(ctx, unit.Scope{
		Name:        "custody-" + l.rec.ID.String() + ".scope",
		Description: "custody: " + strings.ToValidUTF8(l.title(), "?"),
		PIDs:        above, Stop: patience,
	})
	if err != nil || l.rec.Level == contain.PIDNS {
		return err
	}
	missing := l.scopeCgroup(above[0])
	if !contain.AtLeast(l.rec.Level, l.rec.Require) {
		return &LevelError{Required: Level(l.rec.Require), Available: Level(l.rec.Level), Missing: missing.Error()}
	}
	return l.o.dir.Rewrite(l.rec) // the keeper goes on with the record
}

// scopeCgroup makes the launch's cgroup in the keeper's.
func (l *Launch) scopeCgroup(keeper int) error {
	base, err := host.CgroupBaseOf(keeper)
	if err != nil {
		return err
	}
	c := &ledger.Cgroup{Path: contain.CgroupPath(base, l.rec.ID)}
	l.rec.Cgroup, l.rec.Level = c, contain.CgroupL
	if err = l.o.dir.Rewrite(l.rec); err == nil { // before it is made, as ever
		err = contain.MakeCgroup(c)
	}
	if err != nil {
		l.rec.Cgroup, l.rec.Level = nil, contain.Lineage
	}
	return err
}

// title is what people know the launch by.
func (l *Launch) title() string {
	if l.rec.Name != "" {
		return l.rec.Name
	}
	return strings.Join(l.rec.Command, " ")
}
