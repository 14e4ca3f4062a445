package contain

import (
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// Level pidns: the tree lives in a PID namespace of its own, whose first
// process is the launch's leader. A process can't leave it, and the leader's
// end ends everything in it (pid_namespaces(7)).

func (l *look) namespaceFacts(e *gather, p *host.Process, _ host.Row) {
	if l.Rec.TreeNS == 0 {
		return
	}
	ns, err := p.PIDNS()
	e.add(proof.Namespace, "/proc/PID/ns/pid", told(err, ns == l.Rec.TreeNS))
}
