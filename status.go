package custody

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/logfile"
	"github.com/custody-project/custody/internal/sweep"
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
	// and unsure when something could not be asked, or it has not started yet
	// (Reason says what).
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

	Container *ContainerInfo `json:"container,omitempty"` // of a launch that is one

	Ports []int `json:"ports"` // reserved

	Log *LogInfo `json:"log,omitempty"`

	StopHook *StopHook `json:"stop_hook"` // null: none, so what other services do for it is not ended with it
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
	var s *contain.Sighting
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if s, err = tree.Look(true); err != nil {
			return Status{}, fmt.Errorf("status of launch %s: %w", v.rec.ID.Short(), err)
		}
		// Asked before the record is read again: what the keeper wrote last is
		// seen, and while it lives it may be about to write.
		v.kept = lives(v.rec, v.rec.Keeper, v.here)
		if r, err := d.Read(v.rec.ID); err == nil {
			v.rec = r
		}
		// Something that ended in this moment is no lasting answer.
		passing := s.Verdict == proof.Unsure && s.Vanished || s.Verdict == proof.Gone && v.rec.Exit == nil && v.kept == proof.Yes
		if !passing || time.Now().After(end) || ctx.Err() != nil {
			break
		}
		s.Close()
	}
	defer s.Close()
	return v.status(s), nil
}

func (v visited) status(s *contain.Sighting) Status {
	r := v.rec
	st := Status{ID: r.ID, Scope: r.Scope, Name: r.Name, Exit: exitOf(r.Exit), Level: Level(r.Level), PIDs: []int{}, Ports: append([]int{}, r.Ports...),
		Owner: v.ownerInfo(), Released: r.State == ledger.Released, Log: v.logInfo(), StopHook: stopHook(r.StopHook)}
	if r.Leader != nil {
		st.PID, st.LeaderGone = r.Leader.PID, true
	}
	for _, m := range s.Members {
		st.PIDs = append(st.PIDs, m.Row.PID)
		if r.Leader != nil && m.Proc.Is(*r.Leader) {
			st.LeaderGone = false
		}
	}
	if v.kept == proof.Yes {
		st.KeeperPID = r.Keeper.PID
	}
	if st.Exit == nil && st.LeaderGone && v.kept == proof.No {
		// No keeper wrote it down, but while others of the leader's group live
		// the kernel may still tell.
		if p, err := recognise(r, r.Leader, v.here); err == nil {
			if status, err := p.ExitStatus(); err == nil {
				st.Exit = exitOf(sweep.ExitOf(status))
			}
			p.Close()
		}
	}
	st.ExitLost = st.Exit == nil && r.Keeper != nil && v.kept == proof.No && s.Verdict != proof.Foreign
	switch {
	case r.Container != nil && s.Verdict == proof.Owned && !s.Container.Live && v.maybeStarting():
		st.Container = containerInfo(r, s)
		st.State, st.Reason = StateUnsure, "it has not started yet: "+s.Reason
	case r.Container != nil && st.container(r, s):
	case s.Verdict == proof.Owned:
		st.State = StateRunning
		switch {
		case st.LeaderGone && st.Exit != nil:
			st.Reason = fmt.Sprintf("its leader has ended (%s), %d members live", *st.Exit, len(st.PIDs))
		case st.LeaderGone:
			st.Reason = fmt.Sprintf("its leader has ended, %d members live", len(st.PIDs))
		case st.ExitLost:
			st.Reason = "its keeper has died: its exit status will be unknown"
		}
	case r.State == ledger.Released:
		st.State, st.Reason = StateForeign, "released from custody"
	case s.Verdict == proof.Gone && v.maybeStarting():
		st.State, st.Reason = StateUnsure, "it has not started yet"
	case s.Verdict == proof.Gone && !r.Started():
		st.State, st.Reason = StateGone, "it was never started, and its owner has died"
	case s.Verdict == proof.Gone && st.Exit != nil:
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

// maybeStarting reports whether somebody lives who may be about to start it.
func (v visited) maybeStarting() bool {
	return !v.rec.Started() && (v.alive || v.kept == proof.Yes)
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
	return OwnerInfo{ID: v.owner.ID, PID: v.owner.Process.PID, Alive: v.alive, Closed: v.owner.Closed}
}

func (v visited) logInfo() *LogInfo {
	if v.rec.Log == nil {
		return nil
	}
	return &LogInfo{Path: v.dir.LogPath(v.rec.ID), Lost: logfile.Lost(filepath.Dir(v.dir.Path()), v.rec.ID)}
}
