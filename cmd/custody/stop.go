package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func stopCommand() *cobra.Command {
	var phases []string
	var verbose bool
	c := &cobra.Command{
		Use: "stop ID|NAME", Short: "Stop a launch and free what it owned",
		Long: `stop ends the whole tree of a launch by its plan: each phase sends its signal
once and waits, until nothing proven is left. Then what the launch owned is
freed and its record ends. The launch is named by its id, by at least the first
four digits of it, or by its name.

It exits with 1 if something could not be ended; its record is kept then, and
what survived is listed with the reason.`,
		Example: `  custody stop web
  custody stop 3f2a91c4 --phase INT:5s --phase TERM:10s --phase KILL:5s`,
		Args:              one("launch", "custody stop web"),
		ValidArgsFunction: completeLive,
		RunE: func(c *cobra.Command, args []string) error {
			ps, err := parsePhases(phases)
			if err != nil {
				return err
			}
			p := newProgress(verbose)
			opt := custody.StopOptions{Dir: global.dir, Scope: global.scope, Phases: ps, AllowNetworkFS: global.net,
				OnEvent: p.event, OnProgress: p.stop}
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			res, err := custody.Stop(ctx, args[0], opt)
			p.done()
			if res.ID.IsZero() {
				return err
			}
			return reportStop(res, err, ctx.Err() != nil)
		},
	}
	c.Flags().StringArrayVar(&phases, "phase", nil, "stop phase `SIGNAL:DURATION`, in order, instead of the launch's own plan")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "tell on standard error what is signalled and why")
	return c
}

// interruptible ends the context at the first Ctrl-C or TERM: the stop then
// tells what it left. The second one ends the program.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, cancel)
	return ctx, cancel
}

func reportStop(res custody.StopResult, err error, interrupted bool) error {
	if global.json {
		if err := printJSON(res); err != nil {
			return err
		}
	} else {
		out.stopped(res)
	}
	var incomplete *custody.IncompleteError
	if errors.As(err, &incomplete) && !global.json {
		// The survivors stand above, one a line.
		what := why(res)
		if interrupted {
			what = "interrupted, " + count(len(res.Survivors), "process lives", "processes live")
		}
		later := ""
		if res.Outcome == "incomplete" {
			later = ", stop it again to go on"
		}
		return &exitError{exitIncomplete, fmt.Errorf("stop %s: %s; its record is kept%s", res.ID.Short(), what, later)}
	}
	return err
}

func why(res custody.StopResult) string {
	if n := len(res.Survivors); n > 0 {
		return count(n, "process", "processes") + " could not be ended"
	}
	return shownText(or(res.Reason, res.Outcome))
}

// stopped prints what became of one launch.
func (s *screen) stopped(r custody.StopResult) {
	s.printf("%s\n", s.outcomeLine(r))
	for _, v := range r.Survivors {
		verb := "survived"
		if r.Outcome == "would-stop" {
			verb = "would be stopped"
		}
		s.printf("  process %d %s: %s\n", v.PID, verb, shownText(v.Why))
	}
	if h := r.StopHook; h != nil {
		s.printf("  stop hook %s: %s\n", shownText(shownCommand(h.Command)), shownText(hookText(r)))
	}
	for _, f := range r.Freed {
		verb := "freed"
		if r.Outcome == "would-stop" || r.Outcome == "would-free" {
			verb = "would free"
		}
		s.printf("  %s %s\n", verb, shownText(f))
	}
}

// hookText says what came of a stop hook, with the last line that it printed if
// it failed.
func hookText(r custody.StopResult) string {
	h := r.StopHook
	if h.State == custody.StopHookPending && (r.Outcome == "would-stop" || r.Outcome == "would-free") {
		return "would be run"
	}
	t := h.String()
	if h.State == custody.StopHookFailed {
		lines := strings.Split(strings.TrimSpace(h.Output), "\n")
		if last := lines[len(lines)-1]; last != "" {
			t += "; it said: " + last
		}
	}
	return t
}

func (s *screen) outcomeLine(r custody.StopResult) string {
	t := s.bold(r.ID.Short())
	if r.Name != "" {
		t += " " + s.bold(r.Name)
	}
	t += " " + s.word(r.Outcome)
	if n := len(r.Signalled); n > 0 {
		t += ": " + count(n, "process", "processes") + " signalled"
	}
	if r.Reason != "" && (r.Outcome != "gone" || len(r.Signalled) == 0) {
		t += s.faint(" (" + shownText(r.Reason) + ")")
	}
	return t
}
