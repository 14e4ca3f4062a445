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
	return changeCommand("adopt", "Take a released launch back into custody, if a live process is proven to be of it",
		"adopted %s\n", custody.Adopt)
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
