package contain

import (
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// A KILL for the leader's group is atomic and proven by the leader's durable
// handle alone, so it need not wait until each of a thousand members was
// opened and judged. What must be known before is whether something outside
// the group is held to the launch only by its parent in the group: the KILL
// would cut that thread.

// Compact is a group that holds the whole tree, as far as the process table
// shows it.
type Compact struct {
	Leader  *host.Process // the leader's durable handle; the leader may have ended
	Members []*Member     // without handles of their own
}

// Compact returns the leader's group if no process outside of it descends
// from it, else nil. nil is also the answer where anything could not be told:
// then the members have to be looked at one by one.
func (t *Tree) Compact() *Compact {
	l := &look{Tree: t, s: &Sighting{}, place: t.place()}
	lead := t.Rec.Leader
	if !l.here() || lead == nil || lead.PID <= 1 || lead.PGID != lead.PID {
		return nil
	}
	if p, err := host.Reopen(*lead); err != nil {
		return nil
	} else {
		p.Close() // cheap, and most stops of a tree that is gone end here
	}
	table, err := t.rows()
	if err != nil {
		return nil
	}
	var rows []host.Row
	for pid, r := range table.Rows {
		if r.PGID != lead.PGID {
			continue
		}
		rows = append(rows, r)
		for _, kid := range table.Children(pid) {
			if table.Rows[kid].PGID != lead.PGID {
				return nil
			}
		}
	}
	// Seen in the group first, the number found to be the leader's after:
	// then it was our group that was seen.
	p, err := host.Reopen(*lead)
	if err != nil {
		return nil
	}
	c := &Compact{Leader: p}
	for _, r := range rows {
		if r.Zombie() && r.Threads <= 1 {
			continue
		}
		f := proof.Judge(append(append([]proof.Evidence{}, l.place...),
			proof.Evidence{Fact: proof.Live, Source: "/proc/PID/stat", Holds: proof.Yes},
			proof.Evidence{Fact: proof.Group, Source: "/proc/PID/stat field 5, and the leader's durable handle", Holds: proof.Yes}))
		c.Members = append(c.Members, &Member{Row: r, Finding: f, InGroup: true})
	}
	return c
}
