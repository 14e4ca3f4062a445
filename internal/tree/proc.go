// What every process of every tree program has in common: its flags, its
// deadline, and the one line by which it makes itself known.

package tree

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	exitFailed   = 1   // a tree program could not take its shape
	exitUsage    = 2   // it was called wrongly
	exitDeadline = 124 // it reached the end of its life
)

// proc is one process of a tree, seen from inside.
type proc struct {
	*flag.FlagSet
	name  string // the program
	args  []string
	role  string
	life  time.Duration
	pids  string
	ready *os.File // tells the parent that this process is set up; may be nil
	born  time.Time
	slack time.Duration // from the deadline to the kernel's own
}

func newProc(name string, args []string) *proc {
	p := &proc{
		FlagSet: flag.NewFlagSet(prefix+name, flag.ContinueOnError),
		name:    name, args: args, born: time.Now(), slack: time.Second,
	}
	p.StringVar(&p.role, "role", "leader", "what this process is in its tree")
	p.DurationVar(&p.life, "life", time.Minute, "end after this time whatever happens")
	p.StringVar(&p.pids, "pids", os.Getenv("TREE_PIDS"), "file that gets a line per process")
	return p
}

// parse reads the flags and starts the clock of the process.
func (p *proc) parse() {
	p.parseOnly()
	p.arm(p.life)
}

// parseOnly leaves the clock to programs that mean something else by -life.
func (p *proc) parseOnly() {
	fd := p.Uint64("ready", 0, "descriptor that tells the parent this process is set up")
	if err := p.Parse(p.args); err != nil {
		quit(exitUsage)
	}
	// A program may overwrite the memory of its arguments later.
	p.role, p.pids = strings.Clone(p.role), strings.Clone(p.pids)
	if *fd != 0 {
		p.ready = takeReady(uintptr(*fd))
	}
}

// arm sets the deadline: an exit from inside, and behind it the kernel's kill,
// which works on a stopped process too.
func (p *proc) arm(life time.Duration) {
	time.AfterFunc(life, func() { quit(exitDeadline) })
	killAt(life + p.slack)
}

// left is what remains of the life of this process.
func (p *proc) left() time.Duration {
	return max(p.life-time.Since(p.born), time.Millisecond)
}

// announce writes the line of this process and tells its parent.
func (p *proc) announce() { p.announceAs(identify()) }

func (p *proc) announceAs(me Proc) {
	me.Role = p.role
	if p.pids != "" {
		if err := appendLine(p.pids, me.String()); err != nil {
			p.fail("%v", err)
		}
	}
	if p.ready != nil {
		fmt.Fprint(p.ready, "ok")
		p.ready.Close()
		p.ready = nil
	}
}

// park keeps the process alive until something ends it.
func (p *proc) park() {
	for {
		time.Sleep(time.Hour)
	}
}

// fail ends a process that could not do its part, and tells its parent why.
func (p *proc) fail(format string, args ...any) {
	why := fmt.Sprintf("%s%s (%s): ", prefix, p.name, p.role) + fmt.Sprintf(format, args...)
	if p.ready != nil {
		fmt.Fprint(p.ready, why)
	}
	fmt.Fprintln(os.Stderr, why)
	quit(exitFailed)
}

// must ends the process if err is an error.
func (p *proc) must(err error) {
	if err != nil {
		p.fail("%v", err)
	}
}

// appendLine adds one line in one write, so that lines of many processes do
// not mix.
func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
