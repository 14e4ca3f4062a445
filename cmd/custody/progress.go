package main

import (
	"sync"
	"time"

	"github.com/custody-project/custody"
)

// progress tells a waiting user how a stop gets on: on a terminal in one line
// that is written over and goes away at the end, elsewhere in plain lines, and
// only if asked for. Under --json it is silent.
type progress struct {
	mu      sync.Mutex
	verbose bool
	live    bool
	shown   bool
	last    custody.StopProgress
	waiting string // what for, where nothing is stopped
	began   time.Time
	ended   chan struct{}
	wg      sync.WaitGroup
}

func newProgress(verbose bool) *progress {
	p := &progress{verbose: verbose && !global.json, live: errs.tty && !global.json && !verbose, began: time.Now(), ended: make(chan struct{})}
	if p.live {
		p.wg.Go(p.tick)
	}
	return p
}

// tick keeps the time in the live line going. A stop that is over at once
// shows none.
func (p *progress) tick() {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

func (p *progress) draw() {
	what := "waiting" // for a stop that somebody else began, or for the first look
	if p.waiting != "" {
		what = "waiting for " + shownText(p.waiting)
	}
	if p.last.Of > 0 {
		what = "stopping " + p.last.Launch.Short() + ": " + p.last.String()
		if p.last.Name != "" {
			what = "stopping " + shownText(p.last.Name) + ": " + p.last.String()
		}
	}
	line := what + ", " + time.Since(p.began).Truncate(100*time.Millisecond).String()
	errs.printf("\r\x1b[K%s", errs.cut(line, errs.width-1))
	p.shown = true
}

// waitFor says what is waited for.
func (p *progress) waitFor(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = what
}

func (p *progress) stop(x custody.StopProgress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A plain line says when a phase begins; how many are left is for a line
	// that can be written over.
	if p.verbose && (x.Number != p.last.Number || x.Launch != p.last.Launch) {
		say("stopping %s: %s", x.Launch.Short(), x)
	}
	p.last = x
	if p.live && p.shown {
		p.draw()
	}
}

func (p *progress) event(e custody.Event) {
	if p.verbose {
		p.mu.Lock()
		defer p.mu.Unlock()
		say("%s", shownText(e.String()))
	}
}

// done takes the live line away.
func (p *progress) done() {
	close(p.ended)
	p.wg.Wait()
	if p.shown {
		errs.printf("\r\x1b[K")
	}
}
