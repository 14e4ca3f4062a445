package contain

import (
	"errors"
	"os"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// judge asks everything that can tie an opened process to the launch, and
// decides. The error is os.ErrProcessDone if it ended meanwhile, else a
// question that could not be asked at all.
func (l *look) judge(p *host.Process) (*Member, error) {
	exited, err := p.Exited()
	if err != nil {
		return nil, err
	}
	if exited {
		return nil, os.ErrProcessDone
	}
	row, err := p.Stat()
	if err != nil {
		return nil, err
	}
	e := gather{ev: append([]proof.Evidence{}, l.place...)}
	e.add(proof.Live, "pidfd", proof.Yes)
	m := &Member{Proc: p, Row: row}

	// One strong fact proves, so the asking stops there, cheapest first; who
	// wants an explanation gets every answer. Circumstances are asked for only
	// when nothing stronger holds.
	for _, ask := range []func(*gather, *host.Process, host.Row){
		l.identityFacts, l.parentFacts, l.groupFacts, l.cgroupFacts, l.namespaceFacts, l.brandFacts,
	} {
		ask(&e, p, row)
		if !l.Full && e.proven() {
			break
		}
	}
	if m.Finding = proof.Judge(e.ev); m.Finding.Verdict != proof.Owned {
		l.circumstances(&e, p, row)
		m.Finding = proof.Judge(e.ev)
	}
	if m.Finding.Verdict == proof.Owned {
		lead := l.Rec.Leader
		m.InGroup = lead != nil && lead.PGID == lead.PID && row.PGID == lead.PGID
	}
	// What was read by number counts only if the number meant p all along,
	// and every read above checked that. Judge has no business with the dead.
	if exited, err = p.Exited(); err == nil && exited {
		return nil, os.ErrProcessDone
	}
	return m, err
}

// gather collects evidence.
type gather struct{ ev []proof.Evidence }

func (g *gather) add(f proof.Fact, source string, a proof.Answer) {
	g.ev = append(g.ev, proof.Evidence{Fact: f, Source: source, Holds: a})
}

// proven reports whether what was asked so far proves.
func (g *gather) proven() bool { return proof.Judge(g.ev).Verdict == proof.Owned }

// identityFacts: is it one of the processes that the record names?
func (l *look) identityFacts(e *gather, p *host.Process, row host.Row) {
	ids := l.Rec.Members
	if l.Rec.Leader != nil {
		ids = append([]proof.Identity{*l.Rec.Leader}, ids...)
	}
	for _, id := range ids {
		if id.PID != row.PID {
			continue
		}
		if id.FileHandle != "" {
			h, typ, err := p.FileHandle()
			e.add(proof.Handle, "name_to_handle_at", told(err, h == id.FileHandle && typ == id.FileHandleType))
			return
		}
		if id.Inode != 0 {
			ino, err := p.Inode()
			e.add(proof.Inode, "fstat of the pidfd", told(err, ino == id.Inode))
			return
		}
		e.add(proof.Start, "/proc/PID/stat field 22", proof.Of(row.Start == id.Start))
		if id.ExeIno != 0 {
			dev, ino, err := p.Exe()
			e.add(proof.Exe, "/proc/PID/exe", told(err, dev == id.ExeDev && ino == id.ExeIno))
		}
		l.userFact(e, p)
		return
	}
}

func (l *look) userFact(e *gather, p *host.Process) {
	uid, err := p.UID()
	e.add(proof.User, "uid", told(err, uid == l.Rec.UID))
}

// circumstances: what only a person, or several facts together, could use.
func (l *look) circumstances(e *gather, p *host.Process, row host.Row) {
	v, ok, err := p.Env(CookieEnv)
	if err == nil || errors.Is(err, os.ErrProcessDone) {
		e.add(proof.Cookie, "/proc/PID/environ", proof.Of(ok && v == l.Rec.ID.String()))
	}
	if l.Rec.Born {
		e.add(proof.Born, "record", proof.Yes)
	}
	if l.Rec.State != ledger.Intent || l.Rec.Leader != nil {
		return
	}
	e.add(proof.Intent, "record", proof.Yes)
	l.userFact(e, p)
	// Between intent and fork lie microseconds. Where the owner's death was
	// seen it is the bound; else two seconds, in ticks of 10 ms.
	last := l.Rec.IntentTicks + 200
	if l.DeathTicks != 0 {
		last = l.DeathTicks
	}
	e.add(proof.Window, "/proc/PID/stat field 22", proof.Of(row.Start >= l.Rec.IntentTicks && row.Start <= last))
}

// told turns a measured bool into an answer, and a failure to measure into
// Unknown.
func told(err error, holds bool) proof.Answer {
	if err != nil {
		return proof.Unknown
	}
	return proof.Of(holds)
}
