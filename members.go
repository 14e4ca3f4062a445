package custody

import (
	"errors"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/proof"
)

// Member is one process proven to be of a launch.
type Member struct {
	PID     int      `json:"pid"`
	PPID    int      `json:"ppid"`
	State   string   `json:"state"`   // the kernel's letter; empty for a suspect that was not opened long enough
	Comm    string   `json:"comm"`    // the kernel's short name
	Command []string `json:"command"` // its arguments as it shows them now; empty where they can't be seen
	Proof   Finding  `json:"proof"`
}

// Members looks at the tree and returns its proven members.
func (l *Launch) Members() ([]Member, error) {
	rec, err := l.record()
	if rec == nil || err != nil {
		return nil, err
	}
	s, err := contain.Of(rec, l.o.here, nil).Look(true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Verdict == proof.Unsure {
		return nil, errors.New(s.Reason)
	}
	return members(s), nil
}

func members(s *contain.Sighting) []Member {
	out := []Member{}
	for _, m := range s.Members {
		args, _ := m.Proc.Command() // its line may be out of our sight
		out = append(out, Member{PID: m.Row.PID, PPID: m.Row.PPID, State: string(rune(m.Row.State)),
			Comm: m.Row.Comm, Command: append([]string{}, args...), Proof: finding(m.Finding)})
	}
	return out
}
