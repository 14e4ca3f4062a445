package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/foreground"
	"github.com/spf13/cobra"
)

type runFlags struct {
	name     string
	phases   []string
	require  string
	noParent bool
	env      []string
	cwd      string
	labels   []string
	tempDirs []string
	ownDirs  []string
	verbose  bool
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
	fl.StringVar(&f.name, "name", "", "hold this `NAME` exclusively in the scope until the tree is gone")
	fl.StringArrayVar(&f.phases, "phase", nil, "stop phase `SIGNAL:DURATION`, in order (default TERM:10s KILL:5s)")
	fl.StringVar(&f.require, "require", "", "refuse to run below this `LEVEL`: group, lineage, cgroup, pidns")
	fl.BoolVar(&f.noParent, "no-parent", false, "live on when custody's own parent dies")
	fl.StringArrayVar(&f.env, "env", nil, "set a variable `KEY=VALUE` for the command")
	fl.StringVar(&f.cwd, "cwd", "", "run the command in this `DIRECTORY`")
	fl.StringArrayVar(&f.labels, "label", nil, "keep a label `KEY=VALUE` in the record")
	fl.StringArrayVar(&f.tempDirs, "temp-dir", nil, "give the command a private temporary directory, as variable `NAME` and in place of {NAME}")
	fl.StringArrayVar(&f.ownDirs, "own-dir", nil, "take this `DIRECTORY` into custody: it is deleted with the tree")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "tell on standard error what happens")
	return c
}

func run(ctx context.Context, f runFlags, args []string) error {
	if len(args) == 0 {
		return errors.New("run: no command; write it after --, as in 'custody run -- sleep 60'")
	}
	spec := custody.Spec{Name: f.name, Kept: true, Require: custody.Level(f.require), TempDirs: f.tempDirs, OwnDirs: f.ownDirs}
	for _, s := range f.phases {
		p, err := custody.ParsePhase(s)
		if err != nil {
			return err
		}
		spec.Phases = append(spec.Phases, p)
	}
	if f.require != "" {
		if _, err := custody.ParseLevel(f.require); err != nil {
			return err
		}
	}
	for _, kv := range f.env {
		if k, _, ok := strings.Cut(kv, "="); !ok || k == "" {
			return fmt.Errorf("env %q: want KEY=VALUE", kv)
		}
	}
	for i, name := range f.tempDirs {
		if slices.Contains(f.tempDirs[:i], name) {
			return fmt.Errorf("temp-dir %q: named twice", name)
		}
	}
	for _, kv := range f.labels {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return fmt.Errorf("label %q: want KEY=VALUE", kv)
		}
		if spec.Labels == nil {
			spec.Labels = map[string]string{}
		}
		spec.Labels[k] = v
	}
	// A signal in between must not end us and leave the tree to the keeper.
	signals := foreground.Watch()
	scope := global.scope
	if scope == "" {
		scope = "run"
	}
	opt := &custody.Options{Dir: global.dir, AllowNetworkFS: global.net}
	if f.verbose {
		opt.OnEvent = func(e custody.Event) { say("%s", shownText(e.String())) }
	}
	o, err := custody.Open(ctx, scope, opt)
	if err != nil {
		return err
	}
	cmd := o.Command(args[0], args[1:]...)
	cmd.Spec = spec
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Dir = f.cwd
	if len(f.env) > 0 {
		cmd.Env = append(os.Environ(), f.env...)
	}
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
