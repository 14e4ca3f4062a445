package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

// readyFlags say what start waits for, and what becomes of a launch that does
// not get there.
type readyFlags struct {
	ready   []string
	timeout time.Duration
	keep    bool
}

func (f *readyFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringArrayVar(&f.ready, "ready", nil, "wait until the launch is ready, by `WHAT`: port, port:N, an http URL or log:REGEXP")
	fl.DurationVar(&f.timeout, "ready-timeout", 10*time.Minute, "how long to wait for that; 0 is without end")
	fl.BoolVar(&f.keep, "keep-unready", false, "leave a launch running that did not become ready")
}

// conditions reads what to wait for.
func (f *readyFlags) conditions(ports []int) ([]custody.Ready, error) {
	var out []custody.Ready
	for _, s := range f.ready {
		if s == "port" {
			if len(ports) == 0 {
				return nil, errors.New("ready port: which one? reserve it with --port, or name it, as in --ready port:8000")
			}
			for _, n := range ports {
				out = append(out, custody.Ready{Port: n})
			}
			continue
		}
		r, err := custody.ParseReady(s)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// await waits until the launch is ready, and stops it if it will not be.
func (f *readyFlags) await(ctx context.Context, l *custody.Launch, ready []custody.Ready) error {
	if len(ready) == 0 {
		return nil
	}
	ctx, cancel := interruptible(ctx)
	defer cancel()
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	var err error
	for _, r := range ready {
		p := newProgress(false)
		p.waitFor(r.String())
		err = l.WaitReady(ctx, r)
		p.done()
		if err != nil {
			break
		}
	}
	if err == nil {
		return nil
	}
	var not *custody.NotReadyError
	if errors.As(err, &not) && !global.json {
		for _, line := range not.Log {
			say("its log: %s", shownText(line))
		}
	}
	if f.keep {
		return &exitError{exitFailed, fmt.Errorf("%w; it runs on, 'custody stop %s' ends it", err, l.ID().Short())}
	}
	if _, serr := l.Stop(context.Background()); serr != nil {
		return errors.Join(err, serr)
	}
	return &exitError{exitFailed, fmt.Errorf("%w; it was stopped", err)}
}
