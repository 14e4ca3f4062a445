package contain

import (
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// Level group: a launch leads a process group (and mostly a session) of its
// own from birth. The group's number is a bare number like a pid and can be
// recycled; what makes it proof is the leader's durable handle. As long as
// that handle opens, the kernel keeps the number for the leader, its group and
// its session, even after the leader was reaped (measured on Linux 6.18). So a
// process seen in the group *before* the handle was opened again is in our
// group.

// leaderNumberPinned reports whether the leader's number still means the
// leader, its group or its session.
func (l *look) leaderNumberPinned() bool {
	a := l.pinned()
	return a != proof.No
}

func (l *look) pinned() proof.Answer {
	if l.Rec.Leader == nil {
		return proof.No
	}
	// Without durable handles this opens the very leader only, alive or
	// unreaped: the number is pinned as long.
	p, err := host.Recognise(*l.Rec.Leader)
	switch {
	case err == nil:
		p.Close()
		return proof.Yes
	case isGone(err):
		return proof.No
	}
	l.cannotTell("leader's handle", err)
	return proof.Unknown
}

// LeaderLives reports whether the recorded leader is here, and lives. false is
// no proof of the contrary.
func (t *Tree) LeaderLives() bool {
	l := &look{Tree: t, s: &Sighting{}, place: t.place()}
	return l.here() && t.Rec.Leader != nil && host.Lives(*t.Rec.Leader) == proof.Yes
}

// Recycled reports whether the leader's number belongs to somebody else now.
func (t *Tree) Recycled() bool {
	if t.Rec.Leader == nil {
		return false
	}
	p, err := host.Recognise(*t.Rec.Leader)
	if err == nil {
		p.Close()
	}
	if !isGone(err) {
		return false
	}
	p, err = host.Open(t.Rec.Leader.PID)
	if err == nil {
		p.Close()
	}
	return err == nil
}

func (l *look) groupFacts(e *gather, _ *host.Process, row host.Row) {
	lead := l.Rec.Leader
	if lead == nil {
		return
	}
	inGroup := lead.PGID == lead.PID && row.PGID == lead.PGID
	inSession := lead.SID == lead.PID && row.SID == lead.SID
	if !inGroup && !inSession {
		e.add(proof.Group, "/proc/PID/stat field 5", proof.No)
		return
	}
	// Only now, after the row was read, look if the number was ours.
	pinned := l.pinned()
	if inGroup {
		e.add(proof.Group, "/proc/PID/stat field 5, and the leader's durable handle", pinned)
	}
	if inSession {
		e.add(proof.Session, "/proc/PID/stat field 6, and the leader's durable handle", pinned)
	}
}
