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

// readyCommand waits for a launch that somebody else started, or that was taken
// over while it was loading.
func readyCommand() *cobra.Command {
	f, b := readyFlags{}, bound{}
	c := &cobra.Command{
		Use: "ready ID|NAME [WHAT...]", Short: "Wait until a launch is ready",
		Long: `ready waits until a launch can be used, whoever started it, and prints its
status. WHAT is port, port:N, an http URL or log:REGEXP, as of 'custody start
--ready'. port is every port that the launch has reserved, as is nothing at all.

It fails at once when the command ends or a stranger listens on the port, ends
with custody's own parent, and stops nothing.`,
		Example: `  custody ready llama
  custody ready llama http://127.0.0.1:8000/health --timeout 5m`,
		Args: func(c *cobra.Command, args []string) error {
			return one("launch", "custody ready llama")(c, args[:min(1, len(args))])
		},
		ValidArgsFunction: completeLive,
		RunE: func(c *cobra.Command, args []string) error {
			if f.ready = args[1:]; len(f.ready) == 0 {
				f.ready = []string{"port"}
			}
			ready, err := f.conditions()
			if err != nil {
				return err
			}
			err = b.wait(c.Context(), "ready", func(ctx context.Context) error { return f.wait(ctx, args[0], ready) })
			if err != nil {
				return err
			}
			return printStatus(c.Context(), args[0])
		},
	}
	b.add(c)
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long to wait; 0 is without end")
	return c
}

// condition is one thing to wait for.
type condition struct {
	what  string
	ready []custody.Ready // none: every port that the launch has reserved
}

// conditions reads what to wait for.
func (f *readyFlags) conditions() ([]condition, error) {
	if f.timeout < 0 {
		return nil, fmt.Errorf("timeout of %v: want how long to wait, 0 for without end", f.timeout)
	}
	var out []condition
	for _, s := range f.ready {
		if s == "port" {
			out = append(out, condition{"its ports", nil})
			continue
		}
		r, err := custody.ParseReady(s)
		if err != nil {
			return nil, err
		}
		out = append(out, condition{r.String(), []custody.Ready{r}})
	}
	return out, nil
}

// await waits until the launch is ready, and stops it if it will not be; but not
// if its owner died meanwhile, or has changed: then it is not ours to stop.
func (f *readyFlags) await(ctx context.Context, id custody.ID, ready []condition) error {
	if len(ready) == 0 {
		return nil
	}
	before, err := custody.StatusOf(ctx, id.String(), listOptions())
	if err != nil {
		return err
	}
	if err = f.wait(ctx, id.String(), ready); err == nil {
		return nil
	}
	now, serr := custody.StatusOf(context.Background(), id.String(), listOptions())
	if serr != nil {
		return errors.Join(err, serr)
	}
	if f.keep || now.Owner != before.Owner {
		return &exitError{exitFailed, fmt.Errorf("%w; it runs on, 'custody stop %s' ends it", err, id.Short())}
	}
	opt := custody.StopOptions{Dir: global.dir, AllowNetworkFS: global.net}
	if _, serr := custody.Stop(context.Background(), id.String(), opt); serr != nil {
		return errors.Join(err, serr)
	}
	return &exitError{exitFailed, fmt.Errorf("%w; it was stopped", err)}
}

// wait waits until the launch is ready.
func (f *readyFlags) wait(ctx context.Context, launch string, ready []condition) error {
	ctx, cancel := interruptible(ctx)
	defer cancel()
	if f.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.timeout)
		defer cancel()
	}
	for _, r := range ready {
		p := newProgress(false)
		p.waitFor(r.what)
		err := custody.WaitReady(ctx, launch, listOptions(), r.ready...)
		p.done()
		if err != nil {
			return f.told(err)
		}
	}
	return nil
}

// told tells what the launch said last, if it ended.
func (f *readyFlags) told(err error) error {
	var not *custody.NotReadyError
	if errors.As(err, &not) && !global.json {
		for _, line := range not.Log {
			say("its log: %s", shownText(line))
		}
	}
	return err
}
