package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

// launchFlags say how a command is launched; run and start take them alike.
type launchFlags struct {
	name     string
	phases   []string
	require  string
	env      []string
	cwd      string
	labels   []string
	tempDirs []string
	ownDirs  []string
	ports    []int
	replace  bool
	hook     string
	hookTime time.Duration
	verbose  bool

	named func() bool // --name was given
}

func (f *launchFlags) add(c *cobra.Command) {
	fl := c.Flags()
	f.named = func() bool { return fl.Changed("name") }
	fl.StringVar(&f.name, "name", "", "hold this `NAME` exclusively in the scope until the tree is gone")
	fl.StringArrayVar(&f.phases, "phase", nil, "stop phase `SIGNAL:DURATION`, in order (default TERM:10s KILL:5s)")
	fl.StringVar(&f.require, "require", "", "refuse to run below this `LEVEL`: group, lineage, cgroup, pidns")
	fl.StringArrayVar(&f.env, "env", nil, "set a variable `KEY=VALUE` for the command")
	fl.StringVar(&f.cwd, "cwd", "", "run the command in this `DIRECTORY`")
	fl.StringArrayVar(&f.labels, "label", nil, "keep a label `KEY=VALUE` in the record")
	fl.StringArrayVar(&f.tempDirs, "temp-dir", nil, "give the command a private temporary directory, as variable `NAME` and in place of {NAME}")
	fl.StringArrayVar(&f.ownDirs, "own-dir", nil, "take this `DIRECTORY` into custody: it is deleted with the tree")
	fl.IntSliceVar(&f.ports, "port", nil, "reserve this TCP `PORT`; refuse to run if somebody holds it")
	fl.BoolVar(&f.replace, "replace", false, "stop the launch that holds the name first, and wait until it and its ports are gone")
	fl.StringVar(&f.hook, "stop-hook", "", "run this `COMMAND` once when the launch ends, to end what other services do for it; quoted as for a shell, or a JSON array")
	fl.DurationVar(&f.hookTime, "stop-hook-timeout", 10*time.Second, "kill the stop hook after this time")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "tell on standard error what happens")
}

// spec checks the flags, and says which launch they describe.
func (f *launchFlags) spec() (custody.Spec, error) {
	spec := custody.Spec{Name: f.name, Kept: true, Require: custody.Level(f.require), TempDirs: f.tempDirs, OwnDirs: f.ownDirs,
		Ports: f.ports, Replace: f.replace}
	if f.name == "" && f.named() {
		return spec, errors.New("name: it is empty; a launch without a name needs no --name")
	}
	var err error
	if spec.Phases, err = parsePhases(f.phases); err != nil {
		return spec, err
	}
	if f.require != "" {
		if _, err := custody.ParseLevel(f.require); err != nil {
			return spec, err
		}
	}
	for _, kv := range f.env {
		if k, _, ok := strings.Cut(kv, "="); !ok || k == "" {
			return spec, fmt.Errorf("env %q: want KEY=VALUE", kv)
		}
	}
	if f.replace && f.name == "" {
		return spec, errors.New("replace: replace what? give the launch its --name")
	}
	for i, name := range f.tempDirs {
		if slices.Contains(f.tempDirs[:i], name) {
			return spec, fmt.Errorf("temp-dir %q: named twice", name)
		}
	}
	for _, kv := range f.labels {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return spec, fmt.Errorf("label %q: want KEY=VALUE", kv)
		}
		if spec.Labels == nil {
			spec.Labels = map[string]string{}
		}
		spec.Labels[k] = v
	}
	if spec.StopHook, err = splitCommand(f.hook); err != nil {
		return spec, fmt.Errorf("stop-hook %q: %w", f.hook, err)
	}
	spec.StopHookTimeout = f.hookTime
	return spec, nil
}

// open makes this process an owner.
func (f *launchFlags) open(ctx context.Context, scope string) (*custody.Owner, error) {
	if global.scope != "" {
		scope = global.scope
	}
	opt := &custody.Options{Dir: global.dir, AllowNetworkFS: global.net}
	opt.OnEvent = func(e custody.Event) {
		switch {
		case e.Kind == custody.Environment:
			say("warning: %s", shownText(e.Err.Error()))
		case f.verbose:
			say("%s", shownText(e.String()))
		}
	}
	return custody.Open(ctx, scope, opt)
}

// command makes the command of the arguments.
func (f *launchFlags) command(o *custody.Owner, spec custody.Spec, args []string) *custody.Cmd {
	cmd := o.Command(args[0], args[1:]...)
	cmd.Spec = spec
	cmd.Dir = f.cwd
	if len(f.env) > 0 {
		cmd.Env = append(os.Environ(), f.env...)
	}
	return cmd
}
