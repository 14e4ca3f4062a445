package custody

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// ID names an owner or a launch: 128 random bits.
type ID = proof.ID

// ParseID reads the 32 digit form of an ID.
func ParseID(s string) (ID, error) { return proof.ParseID(s) }

// Verdict is the answer to "whose is it": owned, gone, foreign or unsure.
type Verdict = proof.Verdict

// The verdicts. Only Owned may be signalled.
const (
	Unsure  = proof.Unsure
	Owned   = proof.Owned
	Gone    = proof.Gone
	Foreign = proof.Foreign
)

// Level is the containment that was really achieved.
type Level string

// Levels, weakest first.
const (
	LevelProcess Level = contain.Process // the leader alone
	LevelGroup   Level = contain.Group   // its process group and session
	LevelLineage Level = contain.Lineage // everything descended from it (kept launches)
	LevelCgroup  Level = contain.CgroupL // everything in a cgroup of its own
	LevelPIDNS   Level = contain.PIDNS   // everything in a PID namespace of its own
	LevelJob     Level = contain.Job     // Windows job object

	// LevelContainer is beside the order: a container engine sees the tree.
	LevelContainer Level = ledger.ContainerLevel
)

// ParseLevel reads a level's name.
func ParseLevel(s string) (Level, error) {
	switch l := Level(s); l {
	case LevelProcess, LevelGroup, LevelLineage, LevelCgroup, LevelPIDNS, LevelJob:
		return l, nil
	}
	return "", fmt.Errorf("level %.40q: want process, group, lineage, cgroup or pidns", s)
}

// OnOwnerDeath says what becomes of a launch whose owner died.
type OnOwnerDeath string

const (
	Kill    OnOwnerDeath = "kill"    // it is stopped (the default)
	Survive OnOwnerDeath = "survive" // it goes on; needs a keeper
)

// Phase is one step of a stop plan: a signal, and how long to wait for the
// tree to end before the next step.
type Phase struct {
	Signal syscall.Signal
	Wait   time.Duration
}

// ParsePhase reads SIGNAL:DURATION, as in TERM:10s.
func ParsePhase(s string) (Phase, error) {
	p, err := stop.ParsePhase(s)
	return Phase(p), err
}

// String returns the form that ParsePhase reads.
func (p Phase) String() string { return stop.SignalName(p.Signal) + ":" + p.Wait.String() }

// DefaultPhases is the stop plan of a launch that has none of its own: TERM
// and ten seconds, then KILL and five seconds.
func DefaultPhases() []Phase {
	return []Phase{{syscall.SIGTERM, 10 * time.Second}, {syscall.SIGKILL, 5 * time.Second}}
}

// DefaultDeathPhases is the plan for a launch without one whose owner died:
// there is nobody left to wait for it, so it gets one second.
func DefaultDeathPhases() []Phase {
	return []Phase{{syscall.SIGTERM, time.Second}, {syscall.SIGKILL, 5 * time.Second}}
}

// Evidence is one fact, where the answer came from, and whether it holds.
type Evidence = proof.Evidence

// Finding is a verdict with what it rests on.
type Finding struct {
	Verdict  Verdict    `json:"verdict"`
	Reason   string     `json:"reason"`
	Weak     bool       `json:"weak,omitempty"` // no durable handle on this kernel
	Evidence []Evidence `json:"evidence"`
}

func finding(f proof.Finding) Finding { return Finding(f) }

// Survivor is a process that outlived a stop, and why.
type Survivor struct {
	PID int    `json:"pid"`
	Why string `json:"why"`
}

// Sent is one signal that was sent during a stop.
type Sent struct {
	PID    int    `json:"pid"`
	Signal string `json:"signal"`
	Via    string `json:"via"`
}

// StopResult is what became of a launch.
type StopResult struct {
	ID        ID         `json:"id"`
	Name      string     `json:"name,omitempty"`
	Verdict   Verdict    `json:"verdict"`
	Outcome   string     `json:"outcome"` // gone, incomplete, foreign, survives, released, ended, would-stop, would-free
	Reason    string     `json:"reason,omitempty"`
	Signalled []int      `json:"signalled"` // pids, each once
	Signals   []Sent     `json:"signals"`   // in the order in which they were sent
	Survivors []Survivor `json:"survivors"`
	Freed     []string   `json:"freed"`
	StopHook  *StopHook  `json:"stop_hook,omitempty"` // nil: none was recorded, or it was not its turn
}

func stopResult(r sweep.Result) StopResult {
	out := StopResult{ID: r.ID, Name: r.Name, Verdict: r.Verdict, Outcome: r.Outcome, Reason: r.Reason,
		Signalled: []int{}, Signals: []Sent{}, Survivors: []Survivor{}, Freed: append([]string{}, r.Freed...), StopHook: stopHook(r.Hook)}
	for _, s := range r.Sent {
		if s.Err == nil {
			out.Signals = append(out.Signals, Sent{s.PID, stop.SignalName(s.Signal), s.Via})
			if !slices.Contains(out.Signalled, s.PID) {
				out.Signalled = append(out.Signalled, s.PID)
			}
		}
	}
	for _, s := range r.Survivors {
		out.Survivors = append(out.Survivors, Survivor(s))
	}
	return out
}

func ledgerPhases(ps []Phase) []ledger.Phase {
	out := make([]ledger.Phase, len(ps))
	for i, p := range ps {
		out[i] = ledger.Phase{Signal: stop.SignalName(p.Signal), Wait: p.Wait}
	}
	return out
}
