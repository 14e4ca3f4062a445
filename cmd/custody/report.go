package main

import (
	"fmt"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func lsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "Show what is owned", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := custody.List(c.Context(), listOptions())
			if err != nil {
				return err
			}
			if global.json {
				return printJSON(l.Launches)
			}
			for _, x := range l.Launches {
				fmt.Println(x.ID.Short(), x.Scope, x.Name, x.State, x.Level, x.PID, len(x.Members), x.Command)
			}
			return nil
		},
	}
}

func stopCommand() *cobra.Command {
	var phases []string
	c := &cobra.Command{
		Use: "stop ID|NAME", Short: "Stop a launch and free what it owned", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			opt := custody.StopOptions{Dir: global.dir, Scope: global.scope, AllowNetworkFS: global.net}
			for _, s := range phases {
				p, err := custody.ParsePhase(s)
				if err != nil {
					return err
				}
				opt.Phases = append(opt.Phases, p)
			}
			res, err := custody.Stop(c.Context(), args[0], opt)
			if global.json && !res.ID.IsZero() {
				printJSON(res)
			}
			return err
		},
	}
	c.Flags().StringArrayVar(&phases, "phase", nil, "stop phase SIGNAL:DURATION, in order, instead of the launch's own plan")
	return c
}

func sweepCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use: "sweep", Short: "Clean up after dead owners", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			rep, err := custody.Sweep(c.Context(), custody.SweepOptions{Dir: global.dir, Scope: global.scope, DryRun: dry, AllowNetworkFS: global.net})
			if err != nil {
				return err
			}
			return printJSON(rep)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would be done, change nothing")
	return c
}

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain PID|ID", Short: "Say whose a process is, on what evidence, and if it would be signalled", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			x, err := custody.Explain(c.Context(), args[0], listOptions())
			if err != nil {
				return err
			}
			return printJSON(x)
		},
	}
}

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say what this host can guarantee, and what is missing for more", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return printJSON(custody.Doctor(custody.Options{Dir: global.dir}))
		},
	}
}
