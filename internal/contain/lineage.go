package contain

import (
	"errors"
	"fmt"
	"os"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// Level lineage: a keeper stands above the leader as child subreaper, so that
// whatever loses its parent comes back to it. Everything below the keeper is
// of the launch. What the keeper's death would scatter is still known by its
// brand, which only descent can give.

func isGone(err error) bool { return errors.Is(err, os.ErrProcessDone) }

// openKeeper opens the recorded keeper, if it lives.
func (l *look) openKeeper() bool {
	if l.Rec.Keeper == nil {
		return false
	}
	p, err := host.Recognise(*l.Rec.Keeper)
	if err != nil {
		l.cannotTell("keeper", err)
		return false
	}
	if exited, err := p.Exited(); exited || err != nil {
		p.Close()
		return false
	}
	l.keeper = p
	return true
}

// Keeper returns the launch's living keeper, judged by its recorded identity.
// The caller closes its handle. Gone matches os.ErrProcessDone.
func (t *Tree) Keeper() (*Member, error) {
	if t.Rec.Keeper == nil {
		return nil, os.ErrProcessDone
	}
	id := *t.Rec.Keeper
	keeper := *t.Rec
	keeper.Leader, keeper.Members, keeper.Cgroup, keeper.Keeper, keeper.TreeNS, keeper.Brand = &id, nil, nil, nil, 0, 0
	p, err := host.Recognise(id)
	if err != nil {
		return nil, err
	}
	l := &look{Tree: &Tree{Rec: &keeper, Here: t.Here, Full: true}, s: &Sighting{}, marks: map[int]*Member{}, judged: map[int]bool{}}
	l.place = l.Tree.place()
	m, err := l.judge(p)
	if err == nil && m.Finding.Verdict != proof.Owned {
		err = fmt.Errorf("keeper %d: verdict %s: %s", id.PID, m.Finding.Verdict, m.Finding.Reason)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return m, nil
}

// descend takes up the descendants of a proven process through the children
// files of /proc. It reports whether they could be listed.
func (l *look) descend(p *host.Process) bool {
	kids, err := p.Children()
	if isGone(err) {
		return true
	}
	if err != nil {
		if !errors.Is(err, host.ErrUnsupported) {
			l.cannotTell(fmt.Sprintf("children of %d", p.PID()), err)
		}
		return false
	}
	all := true
	for _, pid := range kids {
		if l.marks[pid] != nil || l.judged[pid] {
			continue
		}
		if m := l.candidate(pid); m != nil {
			all = l.descend(m.Proc) && all
		}
	}
	return all
}

func (l *look) parentFacts(e *gather, p *host.Process, row host.Row) {
	if l.keeper != nil && row.PPID == l.keeper.PID() && !l.isHook(p) {
		// The row was read before this look at the keeper: if its number
		// still means the keeper now, it did when it was our parent.
		e.add(proof.Keeper, "/proc/PID/stat field 4, and the keeper's handle", still(l.keeper))
	}
	if m := l.marks[row.PPID]; m != nil {
		e.add(proof.Parent, "/proc/PID/stat field 4, and the parent's handle", still(m.Proc))
	}
}

// isHook reports whether p is the launch's stop hook: the keeper's child where
// the keeper runs it, and no member.
func (l *look) isHook(p *host.Process) bool {
	h := l.Rec.StopHook
	return h != nil && h.State == ledger.HookBegun && h.Process != nil && p.Is(*h.Process)
}

func (l *look) brandFacts(e *gather, p *host.Process, _ host.Row) {
	if l.Rec.Brand != 0 {
		b, err := p.Brand()
		if !errors.Is(err, host.ErrUnsupported) {
			e.add(proof.Brand, "/proc/PID/limits", told(err, uint64(b) == l.Rec.Brand))
		}
	}
}

func still(p *host.Process) proof.Answer {
	switch err := p.Numbered(); {
	case err == nil:
		return proof.Yes
	case isGone(err):
		return proof.No
	}
	return proof.Unknown
}

// walk goes over the process table: for the group and the session, for
// children whose parent can't list them, and for what left everything else.
func (l *look) walk(pinned bool) {
	t, err := l.tables()
	if err != nil {
		l.cannotTell("process table", err)
		return
	}
	l.s.Walked = true
	lead := l.Rec.Leader
	if lead != nil && pinned {
		for pid, r := range t.Rows {
			if r.Zombie() && r.Threads <= 1 {
				continue // dead before the walk came by
			}
			if lead.PGID == lead.PID && r.PGID == lead.PGID || lead.SID == lead.PID && r.SID == lead.SID {
				l.candidate(pid)
			}
		}
	}
	l.parentage(t)
	for _, pid := range t.Marked(CookieEnv, l.Rec.ID.String(), host.Brand(l.Rec.Brand), l.Rec.IntentTicks) {
		l.candidate(pid)
	}
	l.parentage(t)
}

// parentage takes up children by the table, until nothing is added.
func (l *look) parentage(t *host.Table) {
	if l.keeper != nil {
		for _, pid := range t.Children(l.keeper.PID()) {
			l.candidate(pid)
		}
	}
	done := map[int]bool{}
	for added := true; added; {
		added = false
		for _, m := range l.members() {
			if done[m.Row.PID] {
				continue
			}
			done[m.Row.PID] = true
			for _, pid := range t.Children(m.Row.PID) {
				if l.marks[pid] == nil {
					added = l.candidate(pid) != nil || added
				}
			}
		}
	}
}
