package main

import (
	"errors"

	"github.com/custody-project/custody"
)

// The kinds of errors that a program may want to tell apart: a controller that
// finds no server starts one, and one that finds another controller's waits.
var kinds = []struct {
	word, meaning string
	is            error
}{
	{"not-found", "no record names the launch", custody.ErrNotFound},
	{"name-held", "`start`, `run`: another launch of the scope has the name", custody.ErrNameHeld},
	{"taken", "`adopt`: a living owner has the launch", custody.ErrTaken},
	{"port-held", "`start`, `run`: somebody else has a port; nothing was run", custody.ErrPortHeld},
	{"not-ready", "`start`, `ready`: it ended, a stranger has its port, or the time was over", custody.ErrNotReady},
	{"environment", "`start`: it would not outlive its owner here; nothing was run", custody.ErrEnvironment},
	{"level", "the level required can't be had; nothing was run", custody.ErrLevel},
	{"stopped-early", "it was stopped before it began; nothing runs", custody.ErrStoppedEarly},
	{"status-unknown", "`wait`: how the command ended can't be known any more", custody.ErrStatusUnknown},
	{"no-log", "`logs`: the launch keeps no log", custody.ErrNoLog},
	{"incomplete", "something could not be ended; the record is kept", custody.ErrIncomplete},
	{"unsupported", "this system can't do it", errors.ErrUnsupported},
}

func kindOf(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			return k.word
		}
	}
	return ""
}
