// Signals by name, as the flags of the programs give them, and the two things
// the programs do with them besides dying.

package tree

import (
	"os"
	"os/signal"
	"strings"
)

// parseSignals reads a list such as "TERM,INT"; "all" stands for every signal
// that would end a process and can be caught.
func (p *proc) parseSignals(list string) []os.Signal {
	var sigs []os.Signal
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), "SIG"); name {
		case "":
		case "ALL":
			sigs = append(sigs, endingSignals...)
		default:
			s := signalNamed(name)
			if s == nil {
				p.fail("no signal is named %q", name)
			}
			sigs = append(sigs, s)
		}
	}
	return sigs
}

// ignore makes the process deaf to the signals in the list.
func (p *proc) ignore(list string) {
	if sigs := p.parseSignals(list); len(sigs) > 0 {
		signal.Ignore(sigs...)
	}
}

// on returns a channel that gets the signals in the list instead of their
// doing what they would.
func (p *proc) on(list string) <-chan os.Signal {
	c := make(chan os.Signal, 64)
	if sigs := p.parseSignals(list); len(sigs) > 0 {
		signal.Notify(c, sigs...)
	}
	return c
}
