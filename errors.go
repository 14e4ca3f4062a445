package custody

import (
	"errors"
	"fmt"
	"strings"

	"github.com/custody-project/custody/internal/helper"
)

var (
	// ErrNoHelper is matched by Open's error where no program can serve as
	// helper. Call ServeHelper first thing in main, or install the custody
	// binary.
	ErrNoHelper = helper.ErrNoHelper

	// ErrIncomplete is matched by the error of a stop that left something
	// alive or could not tell. The record is kept; try again, or sweep.
	ErrIncomplete = errors.New("stop incomplete")

	// ErrLevel is matched by the error of a start whose required level can't
	// be had. Nothing was run.
	ErrLevel = errors.New("required level not available")

	// ErrEnvironment is matched by the error of a start of a launch that is to
	// survive where its owner's end would end it too. Nothing was run.
	ErrEnvironment = errors.New("the launch would not outlive its owner")

	// ErrNameHeld is matched by the error of a start under a name that
	// another launch of the scope holds.
	ErrNameHeld = errors.New("name is held")

	// ErrStoppedEarly is matched by the error of a start whose launch was
	// stopped, by its name or id, before its command began. Nothing runs.
	ErrStoppedEarly = errors.New("it was stopped before it began")

	// ErrStatusUnknown is matched by the error of a Wait for what ended unseen:
	// its keeper was killed and the kernel could not tell any more (it can for
	// who held the leader's handle, Linux 6.15), the machine was started anew,
	// or a container was removed by somebody else.
	ErrStatusUnknown = errors.New("exit status unknown: nobody who could tell it was left")

	// ErrClosed is returned by the methods of a closed Owner.
	ErrClosed = errors.New("owner is closed")

	// ErrTaken is matched by the error of an Adopt of a launch that a living
	// owner has.
	ErrTaken = errors.New("launch has a living owner")

	// ErrNotFound is matched by the error of a command about a launch that no
	// record names.
	ErrNotFound = errors.New("no such launch")
)

// IncompleteError is a stop that could not end everything.
type IncompleteError struct {
	Launch ID
	Result StopResult
}

func (e *IncompleteError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "launch %s: stop incomplete", e.Launch.Short())
	if len(e.Result.Survivors) == 0 {
		fmt.Fprintf(&b, ": %s", e.Result.Reason)
	}
	for i, s := range e.Result.Survivors {
		if i == 5 {
			fmt.Fprintf(&b, "; and %d more", len(e.Result.Survivors)-i)
			break
		}
		if i == 0 {
			b.WriteString(": ")
		} else {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "process %d %s", s.PID, s.Why)
	}
	b.WriteString("; its record is kept")
	if e.Result.Outcome == "incomplete" {
		b.WriteString(", stop it again to go on")
	}
	return b.String()
}

// Is matches ErrIncomplete.
func (e *IncompleteError) Is(target error) bool { return target == ErrIncomplete }

// LevelError says which level was required and what is missing for it.
type LevelError struct {
	Required, Available Level
	Missing             string
}

func (e *LevelError) Error() string {
	return fmt.Sprintf("level %s is required, %s can be had: %s; nothing was run", e.Required, e.Available, e.Missing)
}

// Is matches ErrLevel.
func (e *LevelError) Is(target error) bool { return target == ErrLevel }

// NameHeldError says which launch holds a name.
type NameHeldError struct {
	Scope, Name string
	Holder      ID
	text        string
}

func (e *NameHeldError) Error() string { return e.text }

// Is matches ErrNameHeld.
func (e *NameHeldError) Is(target error) bool { return target == ErrNameHeld }

// TakenError says which living owner has a launch.
type TakenError struct {
	Launch, Owner ID
	PID           int      // of the owner
	Command       []string // of the owner: its program's name
	self, kill    bool
}

func (e *TakenError) Error() string {
	who := fmt.Sprintf("process %d", e.PID)
	if len(e.Command) > 0 {
		who += fmt.Sprintf(" (%s)", e.Command[0])
	}
	if e.self {
		who = "another owner in this process"
	}
	when := "it can be adopted once that has ended or closed"
	if e.kill {
		when = "it ends with its owner, so nobody else can have it"
	}
	return fmt.Sprintf("launch %s is owned by %s, which is alive; %s", e.Launch.Short(), who, when)
}

// Is matches ErrTaken.
func (e *TakenError) Is(target error) bool { return target == ErrTaken }

// EnvironmentError says what ends a launch that is to survive, or may do so.
type EnvironmentError struct {
	Check   string // service unit, login session, PID 1; as Doctor names it
	Certain bool   // it ends with its owner; otherwise that could not be told, or depends
	Reason  string
	Remedy  string
}

func (e *EnvironmentError) Error() string {
	if e.Certain {
		return fmt.Sprintf("%v: %s; nothing was run. Remedy: %s; or accept it (--accept-environment)", ErrEnvironment, e.Reason, e.Remedy)
	}
	return fmt.Sprintf("the launch may not outlive its owner: %s. Remedy: %s", e.Reason, e.Remedy)
}

// Is matches ErrEnvironment.
func (e *EnvironmentError) Is(target error) bool { return target == ErrEnvironment }
