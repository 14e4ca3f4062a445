package reap

// Owned commands: those whose starter says so. The registry is keyed by the
// command, not by its number: a release that comes late finds its own entry or
// none, never that of who has the number by then.

import (
	"os/exec"
	"runtime"
	"sync"
	"weak"
)

// Start starts cmd as cmd.Start does, and leaves it for its [Wait]. No reaper
// need run. It returns cmd.Start's error.
//
// A command that is forgotten, so that nobody can wait for it any more, is an
// orphan from then on.
func Start(cmd *exec.Cmd) error { return owned.start(cmd, cmd.Start) }

// Wait is cmd.Wait for a command that [Start] started, and returns its error.
// Call it instead of cmd.Wait: after that one the number stays reserved for as
// long as the program keeps cmd.
func Wait(cmd *exec.Cmd) error {
	defer owned.release(weak.Make(cmd))
	return cmd.Wait()
}

// Run is [Start] and [Wait]. For the output, set cmd.Stdout.
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return Wait(cmd)
}

// registry knows which numbers are commands' that somebody will wait for.
type registry struct {
	mu       sync.Mutex
	clock    uint64            // counts starts
	starting map[*claim]uint64 // forks that are under way, by when they began
	byCmd    map[weak.Pointer[exec.Cmd]]*claim
	byPID    map[int]*claim
}

// claim is one command's.
type claim struct{ pid int }

var owned = &registry{
	starting: map[*claim]uint64{},
	byCmd:    map[weak.Pointer[exec.Cmd]]*claim{},
	byPID:    map[int]*claim{},
}

func (g *registry) start(cmd *exec.Cmd, fork func() error) error {
	key, c := weak.Make(cmd), &claim{}
	g.mu.Lock()
	g.clock++
	g.starting[c] = g.clock
	g.mu.Unlock()
	// No lock is held across the fork, which can take as long as a file server
	// is away. What is seen dead while it is under way is not collected before
	// its end, where nothing else tells whose it is.
	ok := false
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.starting, c)
		if ok {
			c.pid = cmd.Process.Pid
			g.byCmd[key], g.byPID[c.pid] = c, c
		}
	}()
	if err := fork(); err != nil {
		return err // a second start of cmd among others: the first keeps its claim
	}
	ok = true
	runtime.AddCleanup(cmd, g.release, key)
	return nil
}

func (g *registry) release(key weak.Pointer[exec.Cmd]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.byCmd[key]
	if c == nil {
		return
	}
	delete(g.byCmd, key)
	if g.byPID[c.pid] == c {
		delete(g.byPID, c.pid)
	}
}

// answer says whose a zombie is, as far as the registry knows.
type answer int

const (
	unknown answer = iota
	perhaps        // a start is under way whose child it can be
	held
)

// now is to be asked once a zombie has been seen, and told to has.
func (g *registry) now() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clock
}

// has says whose the zombie is that was seen then. A start that began later
// can't have forked it.
func (g *registry) has(pid int, seen uint64) answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byPID[pid] != nil {
		return held
	}
	for _, began := range g.starting {
		if began <= seen {
			return perhaps
		}
	}
	return unknown
}
