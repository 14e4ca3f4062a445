package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/container"
	"github.com/spf13/cobra"
)

// start --container: the launch is a container that an engine runs. Importing
// its package also lets every sweep and stop by this command speak to engines.

type containerFlags struct {
	image   string
	network string
	mounts  []string
}

func (f *containerFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.image, "container", "", "start a container of this `IMAGE` by Docker or Podman; COMMAND may be left out")
	fl.StringVar(&f.network, "network", "", "the container's `NETWORK`: none, host, or a name (default: the engine's own)")
	fl.StringArrayVar(&f.mounts, "mount", nil, "show `SOURCE:TARGET[:ro]` in the container")
}

// notWithContainer are flags about processes of ours, which a container is none
// of.
var notWithContainer = []string{"temp-dir", "own-dir", "require", "stop-hook", "stop-hook-timeout", "ready", "ready-timeout",
	"keep-unready", "linger", "log-size", "log-files", "scope-unit", "accept-environment"}

// check says which flags can't be had together.
func (f *containerFlags) check(c *cobra.Command) error {
	with := notWithContainer
	if f.image == "" {
		with = []string{"network", "mount"}
	}
	for _, name := range with {
		switch changed := c.Flags().Changed(name); {
		case changed && f.image == "":
			return fmt.Errorf("--%s is for a container: name its image with --container", name)
		case changed:
			return fmt.Errorf("--%s is not for a container: its engine keeps it, not we", name)
		}
	}
	return nil
}

// spec makes the container of the launch that the other flags describe.
func (f *containerFlags) spec(l launchFlags, spec custody.Spec, args []string) (container.Spec, error) {
	s := container.Spec{Image: f.image, Command: args, Env: l.env, Dir: l.cwd, Network: f.network, Name: spec.Name, Replace: spec.Replace,
		Ports: spec.Ports, Labels: spec.Labels, Phases: spec.Phases, OnOwnerDeath: custody.Survive}
	for _, m := range f.mounts {
		at := strings.Split(m, ":")
		if len(at) < 2 || len(at) > 3 || len(at) == 3 && at[2] != "ro" {
			return s, fmt.Errorf("mount %q: want SOURCE:TARGET or SOURCE:TARGET:ro", m)
		}
		s.Mounts = append(s.Mounts, container.Mount{Source: at[0], Target: at[1], ReadOnly: len(at) == 3})
	}
	return s, nil
}

// start starts it, and returns which launch it is.
func (f *containerFlags) start(ctx context.Context, o *custody.Owner, l launchFlags, spec custody.Spec, args []string) (custody.ID, error) {
	s, err := f.spec(l, spec, args)
	if err != nil {
		return custody.ID{}, errors.Join(err, o.Close())
	}
	c, err := container.Start(ctx, o, s)
	if err != nil {
		o.Close()
		return custody.ID{}, startError(err)
	}
	return c.ID(), o.Close()
}
