package main

import (
	"context"
	"fmt"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func releaseCommand() *cobra.Command {
	return changeCommand("release", "Hand a launch out of custody: no stop, sweep or owner's end touches it any more",
		"released %s; 'custody adopt' takes it back\n", custody.Release)
}

func adoptCommand() *cobra.Command {
	var owner string
	c := &cobra.Command{
		Use: "adopt ID|NAME", Short: "Take over a launch that outlived its owner, or one that was released",
		Long: `adopt takes over a launch that outlived its owner, on behalf of a process: that
owns it as long as it lives. Of several who try exactly one wins; the others are
told who has it. A launch may have ended meanwhile: its status says how.

A released launch is taken back into custody, if a live process is proven to be
of it.`,
		Example: `  custody adopt llama --json
  custody adopt llama --owner 4711`,
		Args:              one("launch", "custody adopt llama"),
		ValidArgsFunction: completeLaunch,
		RunE: func(c *cobra.Command, args []string) error {
			pid, err := ownerPID(owner)
			if err != nil {
				return err
			}
			id, err := custody.Adopt(c.Context(), args[0], custody.AdoptOptions{Dir: global.dir, Scope: global.scope, AllowNetworkFS: global.net, PID: pid})
			if err != nil {
				return err
			}
			return printStatus(c.Context(), id.String())
		},
	}
	c.Flags().StringVar(&owner, "owner", "parent", "the process that owns the launch from now on: a `PID`, or parent")
	return c
}

func forgetCommand() *cobra.Command {
	return changeCommand("forget", "End a record that can't be judged here, on your word that nothing of it lives",
		"forgot %s; what it owned is left as it is\n", custody.Forget)
}

func changeCommand(verb, short, done string, f func(context.Context, string, custody.ListOptions) (custody.ID, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID|NAME", Short: short, Args: one("launch", "custody "+verb+" NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := f(c.Context(), args[0], listOptions())
			if err != nil {
				return err
			}
			if global.json {
				return printJSON(map[string]custody.ID{"id": id})
			}
			fmt.Printf(done, id)
			return nil
		},
	}
}
