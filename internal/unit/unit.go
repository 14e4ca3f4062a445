// Package unit knows what stands above an owner and ends more than the owner:
// a service manager that clears a whole unit, a session that is cleared at
// logout, a PID 1 that takes its container along, a launch that we are in. A launch that is to survive
// its owner is not started where they would end it, and can get a scope unit
// of its own from a service manager (StartScope).
//
// The facts are files of /proc and what a systemd answers on its D-Bus. What
// can't be asked is unknown, never assumed.
package unit

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/custody-project/custody/proof"
)

// Surroundings is where the facts come from. The zero value is this process on
// this machine.
type Surroundings struct {
	// Root is the directory below which /proc and /run are read; empty is /.
	Root string

	// PID is the owner; 0 is this process.
	PID int

	// Buses are D-Bus addresses to ask in place of the usual ones.
	SystemBus, UserBus string

	// Patience bounds how long a service manager is waited for; 0 means 2 s
	// for a question and 20 s for a scope unit.
	Patience time.Duration
}

// The names of the findings.
const (
	Service = "service unit"
	Session = "login session"
	Init    = "PID 1"
	Launch  = "outer launch"
)

// Finding is what one of them does to a launch that is to survive.
type Finding struct {
	Name   string
	Lives  proof.Answer // No: it ends with its owner; Unknown: that could not be told, or depends
	Detail string
	Remedy string // empty if Lives is Yes
}

func (s Surroundings) pid() int {
	if s.PID != 0 {
		return s.PID
	}
	return os.Getpid()
}

func (s Surroundings) file(path ...string) string {
	return filepath.Join(append([]string{"/" + s.Root}, path...)...)
}

// proc reads a file of /proc/PID.
func (s Surroundings) proc(pid int, name string) ([]byte, error) {
	return os.ReadFile(s.file("proc", strconv.Itoa(pid), name))
}

func (s Surroundings) patience(usual time.Duration) time.Duration {
	if s.Patience > 0 {
		return s.Patience
	}
	return usual
}
