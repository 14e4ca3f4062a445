package main

import (
	"errors"
	"fmt"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func sweepCommand() *cobra.Command {
	var dry, verbose bool
	c := &cobra.Command{
		Use: "sweep", Short: "Clean up after dead owners",
		Long: `sweep goes over the records of owners that died: it proves what is left of each
launch, stops it, frees what it owned and ends the record. Live owners and their
launches are not touched.

It exits with 1 if something could not be ended, or if records were set aside
because they can't be believed; those are named, nothing is signalled for them
and they are not deleted.`,
		Example: `  custody sweep --dry-run
  custody sweep --scope browsers --json`,
		Args: none, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			p := newProgress(verbose)
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			rep, err := custody.Sweep(ctx, custody.SweepOptions{Dir: global.dir, Scope: global.scope, DryRun: dry,
				AllowNetworkFS: global.net, OnEvent: p.event, OnProgress: p.stop})
			p.done()
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				err = errors.New("sweep: interrupted; what is left waits for the next one")
			}
			if err != nil {
				return err
			}
			if global.json {
				if err := printJSON(rep); err != nil {
					return err
				}
			} else {
				out.swept(rep, dry)
			}
			return sweepError(rep)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would be done, change nothing")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "tell on standard error what is signalled and why")
	return c
}

// sweepError is what the exit status has to tell even where every good record
// was handled.
func sweepError(rep custody.SweepReport) error {
	n := len(rep.Incomplete())
	if n == 0 {
		return asideError(rep.SetAside)
	}
	err := fmt.Errorf("sweep: %s could not be ended; their records are kept, try again later", count(n, "launch", "launches"))
	if len(rep.SetAside) > 0 {
		err = fmt.Errorf("%w; %w", err, &setAsideError{rep.SetAside})
	}
	return &exitError{exitIncomplete, err}
}

func (s *screen) swept(rep custody.SweepReport, dry bool) {
	for _, r := range rep.Launches {
		s.stopped(r)
	}
	counts := map[string]int{}
	for _, r := range rep.Launches {
		counts[r.Outcome]++
	}
	line := "nothing to sweep"
	if n := len(rep.Launches); n > 0 {
		line = "swept " + count(n, "launch", "launches")
		if dry {
			line = "dry run, nothing was changed: " + count(n, "launch", "launches")
		}
		sep := ": "
		if dry {
			sep = ", of which "
		}
		for _, o := range []string{"gone", "would-stop", "would-free", "incomplete", "survives", "foreign", "released", "ended"} {
			if counts[o] > 0 {
				line += fmt.Sprintf("%s%d %s", sep, counts[o], o)
				sep = ", "
			}
		}
	}
	if rep.LiveOwners > 0 {
		line += "; " + count(rep.LiveOwners, "live owner", "live owners") + " not touched"
	}
	s.printf("%s\n", line)
}
