package custody

import (
	"context"
	"fmt"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/port"
	"github.com/custody-project/custody/proof"
)

// One look after the other: whose is the port, and does it answer. What is
// waited for, and how it is told, is in ready.go.

// readiness is one wait.
type readiness struct {
	*subject
	q        question
	log      *lineWatch   // where a line is waited for
	broken   error        // the log can't be read
	why      string       // it is not ready, as of the last look
	stranger *port.Holder // is in the way for good
	walked   time.Time    // when the tree was looked at last
	suspect  uint64       // socket of a stranger that may be one
	since    time.Time    // it is there
}

// strangerPatience is how long a stranger must listen to be taken for one that stays: a
// predecessor's last process may not be provable any more.
const strangerPatience = 200 * time.Millisecond

func (w *readiness) failed(why string) *NotReadyError {
	return &NotReadyError{Launch: w.rec.ID, Waiting: w.q.what, Reason: why}
}

// look asks once, and says why not.
func (w *readiness) look(ctx context.Context) bool {
	if w.q.log != nil {
		return w.written()
	}
	before, ok := w.belongs(ctx)
	if !ok || w.q.url == nil {
		return ok
	}
	if before.Elsewhere {
		w.why = before.Reason + ": it can't be asked from here"
		return false
	}
	if err := answers(ctx, w.q.url); err != nil {
		w.why = err.Error()
		return false
	}
	// The answer counts if who could give it is who it was before.
	after, ok := w.belongs(ctx)
	if ok && !before.Same(after) {
		w.why, ok = "its listeners changed while it was asked", false
	}
	return ok
}

// rarely is how often the tree is looked at while nobody listens here: a member
// in another network namespace may.
const rarely = 3 * time.Second

// belongs reports whether the port is the tree's.
func (w *readiness) belongs(ctx context.Context) (port.Look, bool) {
	if some, err := port.Listening(w.q.port); err == nil && !some && time.Since(w.walked) < rarely {
		w.why, w.suspect = fmt.Sprintf("port %d: nobody listens on it", w.q.port), 0
		return port.Look{}, false
	}
	w.walked = time.Now()
	rec, err := w.record()
	if rec == nil || err != nil {
		w.why = fmt.Sprintf("its record can't be read: %v", err)
		return port.Look{}, false
	}
	tree := contain.Of(rec, w.here, nil)
	look, err := w.whose(rec, tree)
	if err != nil {
		w.why = err.Error()
		return look, false
	}
	w.why = fmt.Sprintf("port %d: %s", w.q.port, look.Reason)
	defer port.Close(look.Others)
	if look.Verdict == proof.Foreign {
		w.meet(context.WithoutCancel(ctx), look.Others)
	} else {
		w.suspect = 0
	}
	return look, look.Verdict == proof.Owned
}

func (w *readiness) whose(rec *ledger.Record, tree *contain.Tree) (port.Look, error) {
	s, err := tree.Look(true)
	if err != nil {
		return port.Look{}, err
	}
	defer s.Close()
	members := make([]*host.Process, len(s.Members))
	for i, m := range s.Members {
		members[i] = m.Proc
	}
	return port.Belongs(w.q.port, members, func(p *host.Process) proof.Verdict {
		m, err := tree.Judge(p) // it may be younger than the look
		if err != nil {
			return proof.Unsure
		}
		return m.Finding.Verdict
	})
}

// meet looks at who listens in the tree's place. A launch that is recorded may
// be a predecessor on its way out. A stranger that stays is in the way.
func (w *readiness) meet(ctx context.Context, others []port.Holder) {
	for _, h := range others {
		v, err := launchOf(ctx, w.all, h.Proc)
		if err != nil {
			w.why += fmt.Sprintf(" (%v)", err)
			return
		}
		if v != nil && v.rec.ID == w.rec.ID {
			continue // proven meanwhile
		}
		if v != nil {
			w.why = fmt.Sprintf("port %d is held by launch %s still, process %d", w.q.port, shownLaunch(v.rec), h.PID)
			continue
		}
		if w.suspect != h.Inode {
			w.suspect, w.since = h.Inode, time.Now()
		} else if time.Since(w.since) > strangerPatience {
			h.Proc = nil
			w.stranger = &h
			w.why = fmt.Sprintf("port %d: %s listens on it, which is not of this launch and is left alone", w.q.port, h)
		}
		return
	}
	w.suspect = 0 // none but launches
}
