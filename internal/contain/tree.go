// Package contain sees trees: which processes are of a launch, by every
// mechanism the launch has. It proves; it never signals.
//
// One file a mechanism: group.go (process group and session), lineage.go
// (keeper, parentage, brand), cgroup.go. No single one sees every tree, so a
// look combines what the launch has, and says whether that was everything.
package contain

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"

	"github.com/custody-project/custody/internal/engine"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// Levels of containment, weakest first.
const (
	Process = "process"
	Group   = "group"
	Lineage = "lineage"
	CgroupL = "cgroup"
	PIDNS   = "pidns"
	Job     = "job"
)

var rank = map[string]int{Process: 1, Group: 2, Lineage: 3, CgroupL: 4, PIDNS: 5, Job: 5}

// AtLeast reports whether level have is as strong as want; an empty want is
// always met.
func AtLeast(have, want string) bool { return want == "" || rank[have] >= rank[want] }

// CookieEnv is the variable that carries the launch's id to its members.
const CookieEnv = "CUSTODY_LAUNCH"

// Member is one process proven to be of the launch, with its opened handle.
type Member struct {
	Proc    *host.Process
	Row     host.Row
	Finding proof.Finding
	InGroup bool // a signal to the leader's group reaches it
}

// Suspect is a process that something ties to the launch but nothing proves.
type Suspect struct {
	PID     int
	Comm    string
	Finding proof.Finding
}

// Sighting is one look at a launch.
type Sighting struct {
	// Verdict is Owned while members live, Gone when every mechanism says
	// that nothing is left, Foreign for a record of another place, Unsure
	// when something could not be asked or a suspect is left.
	Verdict  proof.Verdict
	Reason   string
	Evidence []proof.Evidence // about the record's place
	Members  []*Member
	Suspects []Suspect
	Walked   bool // the process table was walked
	Vanished bool // a candidate ended during the look: what it forked may be unseen
	Copies   bool // only suspects keep it from being gone

	Container *engine.Sight // of a launch that is a container
	UnderWay  bool          // a container that the engine may still be making
}

// Close closes the handles of the members.
func (s *Sighting) Close() {
	for _, m := range s.Members {
		m.Proc.Close()
	}
}

// Tables gives the process table: a fresh one at each call while a tree is
// being stopped, one and the same for all records of a sweep.
type Tables func() (*host.Table, error)

// Tree is one launch, ready to be looked at.
type Tree struct {
	Rec        *ledger.Record
	Here       host.Place
	DeathTicks uint64 // boot clock at the owner's death where it was seen, else 0
	Full       bool   // ask for every fact, not only until one proves

	tables  Tables          // with the marks of what started since the intent
	rows    Tables          // without them
	corpses map[uint64]bool // pidfs inodes of the dead that were listed before
}

// Of returns the tree of a record.
func Of(rec *ledger.Record, here host.Place, tables Tables) *Tree {
	t := &Tree{Rec: rec, Here: here, tables: tables, rows: tables}
	if tables == nil {
		// Anew at each call. Where the launch was branded from birth a cookie
		// says nothing more.
		cookie := CookieEnv
		if rec.Born {
			cookie = ""
		}
		t.tables = func() (*host.Table, error) { return host.ReadMarked(cookie, rec.IntentTicks) }
		t.rows = host.ReadTable
	}
	return t
}

// place answers whether the record was made here.
func (t *Tree) place() []proof.Evidence {
	r, h := t.Rec, t.Here
	// A boot id is as good as a machine id: it is random, and of one machine.
	sameHost := proof.Of(r.Host == h.Host)
	switch {
	case r.Boot == h.Boot:
		sameHost = proof.Yes
	case r.Host == "" || h.Host == "":
		sameHost = proof.Unknown
	}
	return []proof.Evidence{
		{Fact: proof.SameHost, Source: "/etc/machine-id and boot id", Holds: sameHost},
		{Fact: proof.SameBoot, Source: "/proc/sys/kernel/random/boot_id", Holds: proof.Of(r.Boot == h.Boot)},
		{Fact: proof.SameNamespace, Source: "/proc/self/ns/pid", Holds: proof.Of(r.PIDNS == h.PIDNS)},
		{Fact: proof.Released, Source: "record", Holds: proof.Of(r.State == ledger.Released)},
	}
}

// look is the work of one Look.
type look struct {
	*Tree
	s      *Sighting
	place  []proof.Evidence
	marks  map[int]*Member // by pid, proven in this look
	judged map[int]bool    // by pid, already opened and judged
	cgIDs  map[uint64]bool // ids of the launch's cgroups
	keeper *host.Process   // the living keeper
	blind  error           // the first question that could not be asked
}

// Look finds the members. With deep set it also walks the process table for
// processes that left every other mechanism and still carry the brand or the
// cookie; without it the table is walked only if the launch has no mechanism
// that can list its members.
//
// An error is returned only for a malformed record; what can't be told is
// verdict Unsure with the reason.
func (t *Tree) Look(deep bool) (*Sighting, error) {
	l := &look{Tree: t, s: &Sighting{}, place: t.place(), marks: map[int]*Member{}, judged: map[int]bool{}}
	l.s.Evidence = l.place
	switch {
	case t.Rec.State == ledger.Ended:
		// Proven gone before, and never looked for again.
		l.s.Verdict, l.s.Reason = proof.Gone, "it has ended"
	case t.Rec.Container != nil:
		l.container()
	case l.here():
		l.find(deep)
		l.conclude()
	}
	return l.s, nil
}

// here reports whether the record is of this place at all. A live process is
// assumed, so that only the place decides.
func (l *look) here() bool {
	f := proof.Judge(append(append([]proof.Evidence{}, l.place...),
		proof.Evidence{Fact: proof.Live, Holds: proof.Yes}, proof.Evidence{Fact: proof.Handle, Holds: proof.Yes}))
	l.s.Verdict, l.s.Reason = f.Verdict, f.Reason
	return f.Verdict == proof.Owned
}

func (l *look) find(deep bool) {
	defer func() {
		if l.keeper != nil {
			l.keeper.Close()
		}
	}()
	pinned := l.leaderNumberPinned()
	l.recorded()
	listed := false
	if l.Rec.Cgroup != nil {
		listed = l.cgroup()
	}
	if l.openKeeper() && l.descend(l.keeper) {
		// Everything below the keeper is of the launch, and everything of the
		// launch is below the keeper.
		listed, deep = true, false
	}
	for _, m := range l.members() {
		l.descend(m.Proc)
	}
	// The group and the session have no list of their own: the table is
	// their only one. It is not needed when nobody can be in them any more.
	// If somebody still holds the leader's number and no list shows who, it
	// may be one that left the cgroup.
	needTable := deep || !listed && (pinned || l.Rec.Leader == nil) || pinned && len(l.marks) == 0
	if needTable {
		l.walk(pinned)
	}
}

func (l *look) members() []*Member {
	ms := make([]*Member, 0, len(l.marks))
	for _, m := range l.marks {
		ms = append(ms, m)
	}
	sort.Slice(ms, func(i, j int) bool { return ms[i].Row.PID < ms[j].Row.PID })
	return ms
}

func (l *look) conclude() {
	s := l.s
	s.Members = l.members()
	// A process can be judged before the parent that proves it.
	s.Suspects = slices.DeleteFunc(s.Suspects, func(p Suspect) bool { return l.marks[p.PID] != nil })
	switch {
	case len(s.Members) > 0:
		s.Verdict, s.Reason = proof.Owned, fmt.Sprintf("%d proven members live", len(s.Members))
	case l.blind != nil:
		s.Verdict, s.Reason = proof.Unsure, l.blind.Error()
	case s.Vanished:
		s.Verdict, s.Reason = proof.Unsure, "a process that may be of it ended while it was looked at; what it forked may be unseen"
	case len(s.Suspects) > 0:
		p := s.Suspects[0]
		s.Copies = true
		s.Verdict, s.Reason = proof.Unsure, fmt.Sprintf("process %d (%s) %s", p.PID, p.Comm, p.Finding.Reason)
	default:
		s.Verdict, s.Reason = proof.Gone, "no mechanism of the launch shows a live member"
	}
}

// cannotTell notes a question that could not be asked: then nothing is gone.
func (l *look) cannotTell(what string, err error) {
	if err != nil && !errors.Is(err, os.ErrProcessDone) && l.blind == nil {
		l.blind = fmt.Errorf("can't tell: %s: %w", what, err)
	}
}

// candidate opens a pid that some list named, judges it, and keeps it if it is
// proven.
func (l *look) candidate(pid int) *Member {
	if m := l.marks[pid]; m != nil {
		return m
	}
	if pid <= 1 {
		return nil
	}
	l.judged[pid] = true
	p, err := host.Open(pid)
	if err != nil {
		l.cannotTell(fmt.Sprintf("open process %d", pid), err)
		l.s.Vanished = l.s.Vanished || isGone(err)
		return nil
	}
	return l.consider(p)
}

// corpse reports whether the process, which has ended, was found dead by an
// earlier look of this tree: then it can't have forked since. A zombie that its
// parent leaves lying is listed at every look.
func (l *look) corpse(p *host.Process) bool {
	ino, err := p.Inode()
	if err != nil {
		return p.Numbered() == nil // an old kernel: a zombie, whose end was not just now
	}
	known := l.corpses[ino]
	if l.corpses == nil {
		l.Tree.corpses = map[uint64]bool{}
	}
	l.corpses[ino] = true
	return known
}

// consider judges an opened process and takes it over.
func (l *look) consider(p *host.Process) *Member {
	m, err := l.judge(p)
	if err != nil {
		l.cannotTell(fmt.Sprintf("process %d", p.PID()), err)
		l.s.Vanished = l.s.Vanished || isGone(err) && !l.corpse(p)
		p.Close()
		return nil
	}
	switch m.Finding.Verdict {
	case proof.Owned:
		if old := l.marks[p.PID()]; old != nil {
			p.Close()
			return old
		}
		l.marks[p.PID()] = m
		l.judged[p.PID()] = true
		return m
	case proof.Unsure:
		l.s.Suspects = slices.DeleteFunc(l.s.Suspects, func(s Suspect) bool { return s.PID == p.PID() })
		l.s.Suspects = append(l.s.Suspects, Suspect{PID: p.PID(), Comm: m.Row.Comm, Finding: m.Finding})
	}
	p.Close()
	return nil
}

// recorded takes up the processes whose identity is in the record.
func (l *look) recorded() {
	ids := l.Rec.Members
	if l.Rec.Leader != nil {
		ids = append([]proof.Identity{*l.Rec.Leader}, ids...)
	}
	for _, id := range ids {
		p, err := host.Recognise(id)
		if err != nil {
			l.cannotTell(fmt.Sprintf("recorded process %d", id.PID), err)
			continue
		}
		if gone, err := p.Exited(); gone && err == nil {
			p.Close()
			continue
		}
		l.consider(p)
	}
}

// Judge says whether one opened process is of the launch, with the evidence.
// The process stays the caller's to close.
func (t *Tree) Judge(p *host.Process) (*Member, error) {
	t.Full = true
	l := &look{Tree: t, s: &Sighting{}, place: t.place(), marks: map[int]*Member{}, judged: map[int]bool{}}
	defer func() {
		for _, m := range l.marks {
			m.Proc.Close()
		}
	}()
	if t.Rec.Container != nil {
		// Its processes are the engine's; none is of the launch to us.
		return &Member{Proc: p, Finding: proof.Finding{Verdict: proof.Foreign, Reason: "no fact ties it to the launch"}}, nil
	}
	if l.here() {
		l.find(true)
	}
	if m := l.marks[p.PID()]; m != nil {
		return &Member{Proc: p, Row: m.Row, Finding: m.Finding, InGroup: m.InGroup}, nil
	}
	return l.judge(p)
}
