package custody

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/logfile"
	"github.com/custody-project/custody/proof"
)

// What is the matter with one launch: asked of the kernel, told in one word.

// Status of a launch.
type Status struct {
	ID    ID     `json:"id"`
	Scope string `json:"scope"`
	Name  string `json:"name"`

	// State is running while a proven member lives, exited when the launch has
	// ended and its leader's status is known, gone when it has ended and that
	// is not known, foreign for a record of another machine or PID namespace,
	// and unsure when something could not be asked (Reason says what).
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`

	// Exit is the leader's end, also while the rest of its tree goes on.
	Exit *Exit `json:"exit,omitempty"`

	// ExitLost says that how the leader ends can't be known any more: the
	// keeper was killed.
	ExitLost bool `json:"exit_lost,omitempty"`

	PID        int       `json:"pid"`         // of the leader
	LeaderGone bool      `json:"leader_gone"` // it has ended
	PIDs       []int     `json:"members"`     // the proven members that live
	KeeperPID  int       `json:"keeper_pid,omitempty"`
	Level      Level     `json:"level"`
	Owner      OwnerInfo `json:"owner"`
	Released   bool      `json:"released,omitempty"`
	Log        *LogInfo  `json:"log,omitempty"`
}

// LogInfo is what can be told of a launch's log.
type LogInfo struct {
	Path string `json:"path"`                 // of the newest file
	Lost int64  `json:"lost_bytes,omitempty"` // output that could not be written
}

// States of a launch, as Status tells them.
const (
	StateRunning = "running"
	StateExited  = "exited"
	StateGone    = "gone"
	StateForeign = "foreign"
	StateUnsure  = "unsure"
)

// StatusOf looks at one launch of any owner, by its id, an unambiguous start of
// it, or its name. It changes nothing.
//
// The error matches ErrNotFound if no record names the launch.
func StatusOf(ctx context.Context, launch string, opt ListOptions) (Status, error) {
	v, d, err := find(ctx, launch, opt)
	if err != nil {
		return Status{}, err
	}
	defer d.Close()
	tree := contain.Of(v.rec, v.here, nil)
	s, err := tree.Look(true)
	for range 20 {
		if err != nil || s.Verdict != proof.Unsure || !s.Vanished {
			break
		}
		// Something of it ended in this moment: that is no lasting answer.
		s.Close()
		time.Sleep(20 * time.Millisecond)
		s, err = tree.Look(true)
	}
	if err != nil {
		return Status{}, fmt.Errorf("status of launch %s: %w", v.rec.ID.Short(), err)
	}
	defer s.Close()
	// Read again: how it ended may have been written while we looked.
	if r, err := d.Read(v.rec.ID); err == nil {
		v.rec = r
	}
	return v.status(s), nil
}

func (v visited) status(s *contain.Sighting) Status {
	r := v.rec
	st := Status{ID: r.ID, Scope: r.Scope, Name: r.Name, Exit: exitOf(r.Exit), Level: Level(r.Level), PIDs: []int{},
		Owner: v.ownerInfo(), Released: r.State == ledger.Released, Log: v.logInfo()}
	if r.Leader != nil {
		st.PID, st.LeaderGone = r.Leader.PID, true
	}
	for _, m := range s.Members {
		st.PIDs = append(st.PIDs, m.Row.PID)
		if r.Leader != nil && m.Proc.Is(*r.Leader) {
			st.LeaderGone = false
		}
	}
	kept := r.Keeper != nil && r.State != ledger.Ended && host.Lives(*r.Keeper) == proof.Yes
	if kept {
		st.KeeperPID = r.Keeper.PID
	}
	st.ExitLost = r.Exit == nil && r.Keeper != nil && !kept && s.Verdict != proof.Foreign
	switch {
	case s.Verdict == proof.Owned:
		st.State = StateRunning
		switch {
		case st.LeaderGone && r.Exit != nil:
			st.Reason = fmt.Sprintf("its leader has ended (%s), %d members live", *st.Exit, len(st.PIDs))
		case st.LeaderGone:
			st.Reason = fmt.Sprintf("its leader has ended, %d members live", len(st.PIDs))
		case st.ExitLost:
			st.Reason = "its keeper has died: its exit status will be unknown"
		}
	case r.State == ledger.Released:
		st.State, st.Reason = StateForeign, "released from custody"
	case s.Verdict == proof.Gone && r.Exit != nil:
		st.State = StateExited
	case s.Verdict == proof.Gone:
		st.State = StateGone
		if st.Reason = "how it ended is not known"; r.Boot != v.here.Boot {
			st.Reason += ": the machine was started anew"
		} else if st.ExitLost {
			st.Reason += ": its keeper died before it"
		}
	case s.Verdict == proof.Foreign:
		st.State, st.Reason = StateForeign, s.Reason
	default:
		st.State, st.Reason = StateUnsure, s.Reason
	}
	return st
}

// String returns one line for people: "running", "exited (exit status 7)".
func (s Status) String() string {
	switch {
	case s.State == StateExited && s.Exit != nil:
		return fmt.Sprintf("exited (%s)", *s.Exit)
	case s.Reason != "":
		return fmt.Sprintf("%s (%s)", s.State, s.Reason)
	}
	return s.State
}

func (v visited) ownerInfo() OwnerInfo {
	return OwnerInfo{ID: v.rec.Owner, PID: v.owner.Process.PID, Alive: v.alive}
}

func (v visited) logInfo() *LogInfo {
	if v.rec.Log == nil {
		return nil
	}
	return &LogInfo{Path: v.dir.LogPath(v.rec.ID), Lost: logfile.Lost(filepath.Dir(v.dir.Path()), v.rec.ID)}
}
