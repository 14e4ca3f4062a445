package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// common holds the flags that every command takes.
type common struct {
	dir   string
	scope string
	json  bool
	color string
	net   bool
}

var global common

func root() *cobra.Command {
	c := &cobra.Command{
		Use: "custody", SuggestionsMinimumDistance: 2,
		Short: "Own process trees from launch to proven-gone",
		Long: `custody owns process trees from launch to proven-gone: nothing an owner
started outlives it by accident, and nothing it did not start is ever signalled.

New here? 'custody demo' shows it on a real tree in a few seconds.`,
		Example: `  custody run -- ./server --port 8080
  custody ls
  custody explain 4711
  custody sweep --dry-run`,
		Version:       readVersion().Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return setUp()
		},
	}
	c.SetVersionTemplate("custody {{.Version}}\n")
	f := c.PersistentFlags()
	f.StringVar(&global.dir, "dir", "", "state `DIRECTORY` (default: $CUSTODY_DIR, else the user's state directory)")
	f.StringVar(&global.scope, "scope", "", "`SCOPE`: the name an application gives its owners (default: run for run, start for start; else every one)")
	f.BoolVar(&global.json, "json", false, "print JSON, errors too")
	f.StringVar(&global.color, "color", "auto", "colour the output: `WHEN` is auto, always or never")
	f.BoolVar(&global.net, "allow-network-fs", false, "accept a state directory on a network file system")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		what := err.Error()
		var num *strconv.NumError
		if errors.As(err, &num) {
			what = strings.Replace(what, num.Error(), num.Err.Error(), 1)
		}
		return fmt.Errorf("%s; '%s --help' shows the flags", what, c.CommandPath())
	})
	cobra.EnableCommandSorting = false // in the order of use
	add := func(title string, cmds ...*cobra.Command) {
		c.AddGroup(&cobra.Group{ID: title, Title: title})
		for _, cmd := range cmds {
			cmd.GroupID = title
			cmd.Flags().VisitAll(func(f *pflag.Flag) {
				if _, many := f.Value.(pflag.SliceValue); many {
					f.Usage += "; can be repeated"
				}
			})
			c.AddCommand(cmd)
		}
	}
	add("Own:", runCommand(), startCommand(), stopCommand(), readyCommand(), waitCommand(), releaseCommand(), adoptCommand(), forgetCommand())
	add("See:", lsCommand(), statusCommand(), logsCommand(), treeCommand(), explainCommand())
	add("Care:", sweepCommand(), doctorCommand())
	add("Learn:", demoCommand(), versionCommand(), manCommand())
	c.SetHelpCommandGroupID("Learn:")
	c.SetCompletionCommandGroupID("Learn:")
	c.InitDefaultHelpCmd()
	if help, _, err := c.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error {
			if cmd, rest, err := c.Find(args); err != nil || cmd == c {
				return knownCommand(c, rest)
			}
			return nil
		}
	}
	completeFlags(c)
	return c
}

// knownCommand refuses what is no command, and says what comes close.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf(" did you mean 'custody %s'?", strings.Join(near, "' or 'custody "))
	}
	return fmt.Errorf("unknown command %q;%s 'custody --help' lists the commands", args[0], hint)
}

// one is the check of a command that takes exactly one target.
func one(what, example string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s: no %s given; write it, as in '%s'", c.Name(), what, example)
		case len(args) > 1:
			return fmt.Errorf("%s: one %s at a time, got %d: %s", c.Name(), what, len(args), strings.Join(args, " "))
		case args[0] == "":
			return fmt.Errorf("%s: the %s is empty; write it, as in '%s'", c.Name(), what, example)
		}
		return nil
	}
}

// none is the check of a command that takes no argument.
func none(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s: takes no argument, got %q; '%s --help' shows what it takes", c.Name(), args[0], c.CommandPath())
	}
	return nil
}

func parsePhases(texts []string) ([]custody.Phase, error) {
	var out []custody.Phase
	for _, s := range texts {
		p, err := custody.ParsePhase(s)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func listOptions() custody.ListOptions {
	return custody.ListOptions{Dir: global.dir, Scope: global.scope, AllowNetworkFS: global.net}
}

// asideError is the end of a command that met records it did not believe.
func asideError(aside []custody.SetAside) error {
	if len(aside) == 0 {
		return nil
	}
	return &exitError{exitIncomplete, &setAsideError{aside}}
}

type setAsideError struct{ aside []custody.SetAside }

func (e *setAsideError) Error() string {
	if len(e.aside) == 1 {
		return "1 record was set aside: not believed, nothing signalled for it, not deleted"
	}
	return fmt.Sprintf("%d records were set aside: not believed, nothing signalled for them, not deleted", len(e.aside))
}

func setAsideOf(err error) []custody.SetAside {
	var e *setAsideError
	if errors.As(err, &e) {
		return e.aside
	}
	return nil
}
