// A leader and children that write down each signal they get: one line ROLE
// PID SIGNAME in the log. SIGURG is left out, as the Go runtime sends it to
// itself. Two signals of one kind within microseconds may count as one, as
// they may in the kernel. Announces n times child (or child, starter with
// -double-fork), then leader.

package tree

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"time"
)

func init() { register("siglog", siglog) }

func siglog(p *proc) {
	log := p.String("log", "", "file that gets a line per signal")
	n := p.Int("n", 1, "number of children")
	exitOn := p.String("exit-on", "", "signals to end on; without it none but KILL ends it")
	code := p.Int("code", -1, "exit code then; without it die of the same signal")
	linger := p.Duration("linger", 0, "how long to go on, and log, before that end")
	forked := p.Bool("double-fork", false, "the children are daemons whose starter is gone")
	p.parse()
	if *log == "" {
		p.fail("-log is missing")
	}
	args := []string{"-log", *log, "-exit-on", *exitOn, "-code", strconv.Itoa(*code),
		"-linger", linger.String()}
	switch {
	case p.role == "starter":
		p.spawn(child{prog: "siglog", role: "child", args: args})
		p.announce()
		return
	case p.role == "leader" && *forked:
		for range *n {
			p.must(p.spawn(child{prog: "siglog", role: "starter", session: true, args: args}).Wait())
		}
	case p.role == "leader":
		for range *n {
			p.spawn(child{prog: "siglog", role: "child", args: args})
		}
	}
	final := p.parseSignals(*exitOn)
	got := p.onEvery()
	p.announce()
	for s := range got {
		p.must(appendLine(*log, fmt.Sprintf("%s %d %s", p.role, os.Getpid(), nameOfSignal(s))))
		if slices.Contains(final, s) {
			time.AfterFunc(*linger, func() {
				if *code >= 0 {
					quit(*code)
				}
				p.dieOf(s)
			})
		}
	}
}

// onEvery returns a channel that gets every signal that can be caught.
func (p *proc) onEvery() <-chan os.Signal {
	got := make(chan os.Signal, 1024)
	signal.Notify(got)
	for _, s := range p.parseSignals(runtimeSignals) {
		signal.Reset(s)
	}
	return got
}
