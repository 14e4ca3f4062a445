package main

import (
	"context"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func waitCommand() *cobra.Command {
	var b bound
	c := &cobra.Command{
		Use: "wait ID|NAME", Short: "Wait until a launch has ended, and end as its command did",
		Long: `wait waits until a launch has ended, whoever started it and whether or not
anybody watched, and exits with its command's own status: its code, or 128 and
the number of the signal that ended it. 125 means custody failed, or how it ended
is not known.

The waiting ends with custody's own parent: a program that is killed leaves
nobody behind who waits for it.

Of a launch that lingers only the command is waited for.`,
		Example: `  custody wait llama
  custody wait 3f2a91c4 --json`,
		Args:              one("launch", "custody wait llama"),
		ValidArgsFunction: completeLaunch,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, cancel := interruptible(c.Context())
			defer cancel()
			var x custody.Exit
			err := b.wait(ctx, "wait", func(ctx context.Context) (err error) {
				x, err = custody.Wait(ctx, args[0], listOptions())
				return err
			})
			if err != nil {
				return err
			}
			if global.json {
				err = printJSON(x)
			} else if !x.Success() {
				say("%s ended: %s", shownText(args[0]), x)
			}
			if code := x.ShellCode(); err == nil && code != 0 {
				return &exitError{code, nil}
			}
			return err
		},
	}
	b.add(c)
	return c
}
