package custody

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// Role is what a process is to custody.
type Role string

const (
	RoleNone     Role = ""         // nothing that a record knows
	RoleLeader   Role = "leader"   // the first process of a launch
	RoleMember   Role = "member"   // proven to be of a launch
	RoleOwner    Role = "owner"    // on whose behalf trees run
	RoleKeeper   Role = "keeper"   // parent and subreaper of a kept launch
	RoleWatchdog Role = "watchdog" // watches an owner; told by parent and title, which prove nothing
)

// Explanation says whose a process is, on what evidence, and whether it would
// be signalled.
type Explanation struct {
	PID         int        `json:"pid"`
	Verdict     Verdict    `json:"verdict"`
	Launch      *ID        `json:"launch"` // null where no launch has to do with it
	Name        string     `json:"name,omitempty"`
	Role        Role       `json:"role,omitempty"`
	Reason      string     `json:"reason"`
	Evidence    []Evidence `json:"evidence"`
	WouldSignal bool       `json:"would_signal"`
	State       string     `json:"state,omitempty"` // the kernel's letter; Z for one that ended and was not collected
	Command     []string   `json:"command,omitempty"`
	Parent      int        `json:"parent,omitempty"`
}

// Explain explains a pid (decimal), or each member of a launch (id, start of
// it, or name). For a pid it returns one explanation.
//
// The error matches ErrNotFound if there is no such launch, os.ErrProcessDone
// if there is no such process and no record names it.
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
	if pid < 1 {
		return Explanation{}, fmt.Errorf("explain: %d is no pid", pid)
	}
	x := Explanation{PID: pid, Verdict: proof.Foreign, Reason: "no record names it or anything it descends from", Evidence: []Evidence{}}
	if pid == 1 {
		x.Reason = "process 1 is never a launch's"
		return x, nil
	}
	p, err := host.Open(pid)
	if errors.Is(err, os.ErrProcessDone) {
		return explainEnded(ctx, x, opt)
	}
	if err != nil {
		return x, fmt.Errorf("explain process %d: %w", pid, err)
	}
	defer p.Close()
	row, err := p.Stat()
	if err != nil {
		return x, fmt.Errorf("explain process %d: %w", pid, err)
	}
	x.Parent, x.State = row.PPID, string(rune(row.State))
	x.Command, _ = p.Command() // its line may be out of our sight
	if exited, err := p.Exited(); err == nil && exited {
		return explainZombie(ctx, x, p, opt)
	}
	var aside []SetAside
	best := -1
	err = visitAll(ctx, opt, func(v visited) error {
		x.ownerRole(p, row, v)
		return nil
	}, func(v visited) error {
		m, err := v.tree.Judge(p)
		if errors.Is(err, os.ErrProcessDone) {
			return &endedError{fmt.Sprintf("explain: process %d ended meanwhile", pid)}
		}
		if err != nil {
			return nil // this record can't tell; another may
		}
		f := m.Finding
		if r := weight(f); r > best {
			best = r
			id := v.rec.ID
			if x.Role == RoleNone || f.Verdict == proof.Owned {
				x.Verdict, x.Reason, x.Evidence, x.WouldSignal = f.Verdict, f.Reason, f.Evidence, f.MaySignal()
				x.Launch, x.Name = &id, v.rec.Name
				if f.Verdict == proof.Foreign && r == 0 {
					x.Launch, x.Name, x.Reason = nil, "", "no fact ties it to any recorded launch"
				}
			}
			if x.Role == RoleNone && f.Verdict == proof.Owned {
				x.Role = RoleMember
				if v.rec.Leader != nil && p.Is(*v.rec.Leader) {
					x.Role = RoleLeader
				}
			}
		}
		if v.rec.Keeper != nil && p.Is(*v.rec.Keeper) {
			x.isHelper(RoleKeeper, "it is the keeper of launch "+v.rec.ID.Short()+": the parent of its tree, and no member; it ends by itself after its launch")
		}
		return nil
	}, &aside)
	if n := len(aside); n > 0 && x.Verdict == proof.Foreign && x.Role == RoleNone {
		// What can't be read can't be ruled out, and is never acted on.
		x.Reason += fmt.Sprintf("; %d entries of the state directory could not be believed, 'custody sweep --dry-run' names them", n)
	}
	return x, err
}

// ownerRole notes if the process is an owner, or stands beside one as its
// watchdog.
func (x *Explanation) ownerRole(p *host.Process, row host.Row, v visited) {
	switch {
	case p.Is(v.owner.Process) && !v.owner.Closed:
		x.isHelper(RoleOwner, "it is an owner of scope "+v.owner.Scope+": trees run on its behalf, and custody never signals an owner")
	case v.alive && row.PPID == v.owner.Process.PID && len(x.Command) > 0 && x.Command[0] == "custody-watchdog":
		x.isHelper(RoleWatchdog, fmt.Sprintf("it is the watchdog of owner %d: it sweeps the owner's launches when the owner dies", row.PPID))
	}
}

// isHelper notes a role that is no membership. A process can be that and a
// member of an outer launch, which then decides the verdict.
func (x *Explanation) isHelper(r Role, reason string) {
	x.Role = r
	if x.Verdict != proof.Owned {
		x.Verdict, x.Reason, x.Launch, x.Name, x.WouldSignal = proof.Foreign, reason, nil, "", false
	}
}

// explainZombie explains a process that has ended and that nobody collected.
// It is dead for ownership; only its parent can make the number free.
func explainZombie(ctx context.Context, x Explanation, p *host.Process, opt ListOptions) (Explanation, error) {
	x.Verdict = proof.Gone
	x.Evidence = []Evidence{{Fact: proof.Live, Source: "pidfd", Holds: proof.No}}
	parent := "its parent"
	if q, err := host.Open(x.Parent); err == nil {
		defer q.Close()
		if row, err := q.Stat(); err == nil {
			parent = fmt.Sprintf("its parent, process %d (%s),", x.Parent, row.Comm)
		}
	}
	x.Reason = "it has ended, a zombie: " + parent + " lives and has not collected it"
	err := visitNamed(ctx, opt, func(v visited, r Role, n proof.Identity) {
		if p.Is(n) {
			id := v.rec.ID
			x.Launch, x.Name, x.Role = &id, v.rec.Name, r
		}
	})
	return x, err
}

// explainEnded explains a pid that no process has, if a record names it.
func explainEnded(ctx context.Context, x Explanation, opt ListOptions) (Explanation, error) {
	found := false
	err := visitNamed(ctx, opt, func(v visited, role Role, n proof.Identity) {
		if found || n.PID != x.PID {
			return
		}
		id := v.rec.ID
		found, x.Verdict, x.Role, x.Launch, x.Name = true, proof.Gone, role, &id, v.rec.Name
		x.Reason = fmt.Sprintf("it has ended; it was the %s of launch %s, whose record is still there", role, id.Short())
		x.Evidence = []Evidence{{Fact: proof.Live, Source: "pidfd_open", Holds: proof.No}}
	})
	if err == nil && !found {
		err = &endedError{fmt.Sprintf("explain: there is no process %d, and no record names it", x.PID)}
	}
	return x, err
}

// visitNamed calls f for every process that a record names.
func visitNamed(ctx context.Context, opt ListOptions, f func(visited, Role, proof.Identity)) error {
	var aside []SetAside
	return visit(ctx, opt, func(v visited) error {
		if v.rec.Leader != nil {
			f(v, RoleLeader, *v.rec.Leader)
		}
		if v.rec.Keeper != nil {
			f(v, RoleKeeper, *v.rec.Keeper)
		}
		for _, m := range v.rec.Members {
			f(v, RoleMember, m)
		}
		return nil
	}, &aside)
}

// endedError is os.ErrProcessDone in words that name the process.
type endedError struct{ text string }

func (e *endedError) Error() string { return e.text }

// Is matches os.ErrProcessDone.
func (e *endedError) Is(target error) bool { return target == os.ErrProcessDone }

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
		if e.Fact == proof.Handle || e.Fact == proof.Inode || e.Fact == proof.Start || e.Fact == proof.Cookie && e.Holds == proof.Yes {
			return 1
		}
	}
	return 0
}

func explainLaunch(ctx context.Context, target string, opt ListOptions) ([]Explanation, error) {
	explains := map[ID][]Explanation{} // a name may have been another launch's before
	var aside []SetAside
	var found []visited
	err := visit(ctx, opt, func(v visited) error {
		if !v.matches(target) {
			return nil
		}
		// It may be met twice, where it was and where it moved to.
		found = append(slices.DeleteFunc(found, func(f visited) bool { return f.rec.ID == v.rec.ID }), v)
		v.tree.Full = true
		s, err := v.tree.Look(true)
		if err != nil {
			return err
		}
		defer s.Close()
		id := v.rec.ID
		var out []Explanation
		for _, m := range s.Members {
			args, _ := m.Proc.Command()
			x := explained(m.Row.PID, m.Row.PPID, &id, v.rec.Name, args, m.Finding)
			x.Role, x.State = RoleMember, string(rune(m.Row.State))
			if v.rec.Leader != nil && v.rec.Leader.PID == x.PID {
				x.Role = RoleLeader
			}
			out = append(out, x)
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
		explains[id] = out
		return nil
	}, &aside)
	if err != nil {
		return nil, err
	}
	v, err := only(target, found, aside)
	if err != nil {
		return nil, err
	}
	return explains[v.rec.ID], nil
}

func explained(pid, parent int, id *ID, name string, args []string, f proof.Finding) Explanation {
	return Explanation{PID: pid, Parent: parent, Launch: id, Name: name, Command: args,
		Verdict: f.Verdict, Reason: f.Reason, Evidence: f.Evidence, WouldSignal: f.MaySignal()}
}
