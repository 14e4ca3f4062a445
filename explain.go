package custody

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// Explanation says whose a process is, on what evidence, and whether it would
// be signalled.
type Explanation struct {
	PID         int        `json:"pid"`
	Verdict     Verdict    `json:"verdict"`
	Launch      *ID        `json:"launch"` // null where no launch has to do with it
	Name        string     `json:"name,omitempty"`
	Reason      string     `json:"reason"`
	Evidence    []Evidence `json:"evidence"`
	WouldSignal bool       `json:"would_signal"`
	Command     []string   `json:"command,omitempty"`
	Parent      int        `json:"parent,omitempty"`
}

// Explain explains a pid (decimal), or each member of a launch (id, start of
// it, or name). For a pid it returns one explanation.
//
// The error matches ErrNotFound if there is no such launch, os.ErrProcessDone
// if there is no such process.
func Explain(ctx context.Context, target string, opt ListOptions) ([]Explanation, error) {
	if pid, err := strconv.Atoi(target); err == nil && len(target) < 8 {
		x, err := explainPID(ctx, pid, opt)
		if err != nil {
			return nil, err
		}
		return []Explanation{x}, nil
	}
	return explainLaunch(ctx, target, opt)
}

func explainPID(ctx context.Context, pid int, opt ListOptions) (Explanation, error) {
	x := Explanation{PID: pid, Verdict: proof.Foreign, Reason: "no record names it or anything it descends from", Evidence: []Evidence{}}
	if pid <= 1 {
		x.Reason = "pids up to 1 are never a launch's"
		return x, nil
	}
	p, err := host.Open(pid)
	if err != nil {
		return x, fmt.Errorf("explain: %w", err)
	}
	defer p.Close()
	row, err := p.Stat()
	if err != nil {
		return x, fmt.Errorf("explain: %w", err)
	}
	x.Parent = row.PPID
	x.Command, _ = p.Command() // its line may be out of our sight
	var aside []SetAside
	best := -1
	err = visit(ctx, opt, func(v visited) error {
		m, err := v.tree.Judge(p)
		if errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("explain: process %d: %w", pid, err)
		}
		if err != nil {
			return nil // this record can't tell; another may
		}
		f := m.Finding
		if r := weight(f); r > best {
			best = r
			id := v.rec.ID
			x.Verdict, x.Reason, x.Evidence, x.WouldSignal = f.Verdict, f.Reason, f.Evidence, f.MaySignal()
			x.Launch, x.Name = &id, v.rec.Name
			if f.Verdict == proof.Foreign && r == 0 {
				x.Launch, x.Name = nil, ""
			}
		}
		return nil
	}, &aside)
	return x, err
}

// weight orders what records say of one process: the one that owns it, the
// one that may, the one whose number it took, any other.
func weight(f proof.Finding) int {
	switch f.Verdict {
	case proof.Owned:
		return 4
	case proof.Unsure:
		return 3
	}
	for _, e := range f.Evidence {
		if e.Fact == proof.Handle || e.Fact == proof.Cookie && e.Holds == proof.Yes {
			return 1
		}
	}
	return 0
}

func explainLaunch(ctx context.Context, target string, opt ListOptions) ([]Explanation, error) {
	out := []Explanation{}
	var aside []SetAside
	var found []visited
	err := visit(ctx, opt, func(v visited) error {
		if !v.matches(target) {
			return nil
		}
		found = append(found, v)
		s, err := v.tree.Look(true)
		if err != nil {
			return err
		}
		defer s.Close()
		id := v.rec.ID
		for _, m := range s.Members {
			args, _ := m.Proc.Command()
			out = append(out, explained(m.Row.PID, m.Row.PPID, &id, v.rec.Name, args, m.Finding))
		}
		for _, p := range s.Suspects {
			out = append(out, explained(p.PID, 0, &id, v.rec.Name, nil, p.Finding))
		}
		if len(out) == 0 {
			pid := 0
			if v.rec.Leader != nil {
				pid = v.rec.Leader.PID
			}
			out = append(out, explained(pid, 0, &id, v.rec.Name, nil,
				proof.Finding{Verdict: s.Verdict, Reason: s.Reason, Evidence: s.Evidence}))
		}
		return nil
	}, &aside)
	if err != nil {
		return nil, err
	}
	if _, err := only(target, found, aside); err != nil {
		return nil, err
	}
	return out, nil
}

func explained(pid, parent int, id *ID, name string, args []string, f proof.Finding) Explanation {
	return Explanation{PID: pid, Parent: parent, Launch: id, Name: name, Command: args,
		Verdict: f.Verdict, Reason: f.Reason, Evidence: f.Evidence, WouldSignal: f.MaySignal()}
}
