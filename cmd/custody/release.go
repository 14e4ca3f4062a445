package main

import (
	"context"
	"fmt"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func releaseCommand() *cobra.Command {
	return changeCommand("release", "Hand a launch out of custody: no stop, sweep or owner's end touches it any more",
		`release hands a launch out of custody: no stop, sweep or owner's end touches it
any more, and its directories are its own. Its record stays, and says so, until
'custody adopt' proves its identity and takes it back. A launch that has ended is
refused.`,
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
		`forget ends the record of a launch, on your word that nothing of it lives: one of
another machine or of a container that is gone, or one that has ended, whose exit
status and log are of no use any more. The log goes; what else it owned is left
as it is. It is refused while a proven member lives.`,
		"forgot %s; what it owned is left as it is\n", custody.Forget)
}

func changeCommand(verb, short, long, done string, f func(context.Context, string, custody.ListOptions) (custody.ID, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " ID|NAME", Short: short, Long: long, Args: one("launch", "custody "+verb+" NAME"),
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
