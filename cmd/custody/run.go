package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/foreground"
	"github.com/spf13/cobra"
)

type runFlags struct {
	launchFlags
	noParent bool
}

func runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command in the foreground; its whole tree ends with it, with custody, and with custody's parent",
		Long: `Run a command in the foreground. Its whole tree ends when the command ends,
when custody is ended or killed, and when custody's own parent dies.

On a terminal the command gets it: Ctrl-C and Ctrl-Z work as without custody.
The first TERM, INT, HUP or QUIT sent to custody begins the stop plan, in place
of its first signal; a second one cuts the waiting short.

The exit status is the command's own; a signal that ended it ends custody too.
125 means custody failed, 126 that the command can't be executed, 127 that it
was not found.`,
		Example: `  custody run -- npx some-mcp-server
  custody run --temp-dir PROFILE -- chromium --headless --user-data-dir={PROFILE}
  custody run --require cgroup --phase INT:5s --phase KILL:5s -- ./server`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return run(c.Context(), f, args)
		},
	}
	fl := c.Flags()
	fl.SetInterspersed(false)
	f.launchFlags.add(c)
	fl.BoolVar(&f.noParent, "no-parent", false, "live on when custody's own parent dies")
	return c
}

func run(ctx context.Context, f runFlags, args []string) error {
	if len(args) == 0 {
		return errors.New("run: no command; write it after --, as in 'custody run -- sleep 60'")
	}
	spec, err := f.spec()
	if err != nil {
		return err
	}
	// A signal in between must not end us and leave the tree to the keeper.
	signals := foreground.Watch()
	o, err := f.open(ctx, "run")
	if err != nil {
		return err
	}
	cmd := f.command(o, spec, args)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = foreground.Run(ctx, cmd, signals, foreground.Options{NoParent: f.noParent})
	if cerr := o.Close(); cerr != nil && !errors.Is(err, custody.ErrIncomplete) {
		complain(cerr)
	}
	if cmd.ProcessState == nil {
		return startError(err)
	}
	if errors.Is(err, custody.ErrIncomplete) {
		complain(err)
	}
	if code := foreground.Mirror(cmd.ProcessState); code != 0 {
		return &exitError{code, nil}
	}
	return nil
}

// startError maps a failed start to the exit codes of env(1) and timeout(1).
func startError(err error) error {
	// Only what was said of the command itself counts: a missing directory of
	// ours is a failure of ours.
	var look *exec.Error
	var pe *fs.PathError
	if !errors.As(err, &look) && !(errors.As(err, &pe) && pe.Op == "fork/exec") {
		return err
	}
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return &exitError{exitNotFound, err}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.EISDIR):
		return &exitError{exitCannotExec, err}
	}
	return err
}
