package port

import (
	"fmt"
	"slices"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// Look says whose a port is.
type Look struct {
	// Verdict is Owned if somebody listens and every listener is of the tree,
	// Foreign if a listener is not, Gone if nobody listens, and Unsure, with
	// the reason, if that can't be told.
	Verdict proof.Verdict
	Reason  string
	// Others are the listeners that are not of the tree. Close closes their
	// handles.
	Others []Holder
	// Elsewhere says that the listeners are in another network namespace, out
	// of our reach.
	Elsewhere bool

	sockets []Socket // that were looked at
}

// Same reports whether two looks saw the same listeners.
func (l Look) Same(m Look) bool { return slices.Equal(l.sockets, m.sockets) }

// Judge says whether an opened process is of a launch.
type Judge func(*host.Process) proof.Verdict

// Belongs says whether the listeners on a port are of the tree whose proven
// members are given. Every listener is looked at: where a stranger listens too
// (SO_REUSEPORT, or on another address) nobody knows who answers. Who holds a
// listener and is no given member is judged: the member may be young.
//
// A member may live in another network namespace, where a port is another
// port: then that one is looked at too.
func Belongs(port int, members []*host.Process, judge Judge) (Look, error) {
	look, err := ours.belongs(port, members, judge)
	if err != nil {
		return look, err
	}
	seen := []uint64{netns(nil)}
	for _, m := range members {
		id := netns(m)
		if id == 0 || slices.Contains(seen, id) {
			continue
		}
		seen = append(seen, id)
		there, err := namespace{proc: m}.belongs(port, members, judge)
		if err != nil {
			continue // it ended, or hides; it is no listener in our namespace
		}
		there.Elsewhere = true
		if there.Verdict == proof.Owned {
			there.Reason = fmt.Sprintf("%s, in the network namespace of process %d, which is not ours", there.Reason, m.PID())
		}
		look = worse(look, there)
	}
	return look, nil
}

// worse joins the looks at two namespaces: a stranger in one spoils both, and
// nobody in one says nothing.
func worse(a, b Look) Look {
	for _, v := range []proof.Verdict{proof.Foreign, proof.Unsure, proof.Owned} {
		if a.Verdict == v {
			break
		}
		if b.Verdict == v {
			a, b = b, a
			break
		}
	}
	Close(b.Others)
	return a
}

func (n namespace) belongs(port int, members []*host.Process, judge Judge) (Look, error) {
	socks, err := n.listeners(port)
	if err != nil {
		return Look{}, err
	}
	if len(socks) == 0 {
		return Look{Verdict: proof.Gone, Reason: "nobody listens on it"}, nil
	}
	hs, err := holders(socks)
	if err != nil {
		return Look{}, err
	}
	look := Look{Verdict: proof.Owned, Reason: "every listener is proven to be of the tree", sockets: socks}
	unsure := ""
	for _, h := range hs {
		switch verdict(h, members, judge) {
		case proof.Foreign:
			look.Others = append(look.Others, h)
			continue
		case proof.Owned:
		default:
			unsure = fmt.Sprintf("%s holds it, and can't be proven to be of the tree", h)
		}
		Close([]Holder{h})
	}
	// What was judged must be what is there: a socket that was opened or
	// closed meanwhile makes it another port.
	after, err := n.listeners(port)
	switch {
	case err != nil:
		Close(look.Others)
		return Look{}, err
	case !slices.Equal(socks, after):
		look.Verdict, look.Reason = proof.Unsure, "its listeners changed while they were looked at"
	case len(look.Others) > 0:
		look.Verdict, look.Reason = proof.Foreign, fmt.Sprintf("%s listens on it", look.Others[0])
	case unsure != "":
		look.Verdict, look.Reason = proof.Unsure, unsure
	}
	return look, nil
}

// verdict says whose a holder is. Its handle is open, and so are the members':
// while both numbers mean them still, equal numbers are equal processes.
func verdict(h Holder, members []*host.Process, judge Judge) proof.Verdict {
	if h.Proc == nil {
		return proof.Unsure
	}
	for _, m := range members {
		if m.PID() == h.PID && m.Numbered() == nil && h.Proc.Numbered() == nil {
			return proof.Owned
		}
	}
	return judge(h.Proc)
}
