package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

// Completion of what is owned. It only looks, and not for long: the user's
// shell waits.

// completeLaunch offers names, and the short ids of launches, those that have
// ended too. A name means the last that had it.
func completeLaunch(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return offer(c, args, typed, true)
}

// completeLive is for commands that have nothing to do with what has ended.
func completeLive(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return offer(c, args, typed, false)
}

func offer(c *cobra.Command, args []string, typed string, all bool) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var offers []string
	named := map[string]bool{}
	ls := shown(owned(c), all)
	slices.Reverse(ls) // the youngest first
	for _, l := range ls {
		what := shownCommand(l.Command)
		if l.Name != "" && !named[l.Name] && strings.HasPrefix(l.Name, typed) {
			named[l.Name] = true
			offers = append(offers, cobra.CompletionWithDesc(l.Name, l.State+": "+what))
		}
		id := l.ID.Short()
		if len(typed) > len(id) {
			id = l.ID.String()
		}
		if (typed != "" || l.Name == "") && strings.HasPrefix(id, typed) {
			offers = append(offers, cobra.CompletionWithDesc(id, l.State+": "+what))
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

func owned(c *cobra.Command) []custody.LaunchInfo {
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	l, err := custody.List(ctx, listOptions())
	if err != nil {
		return nil // a completion has nowhere to complain
	}
	return l.Launches
}

// completeFlags registers the values of the flags that have a known set.
func completeFlags(root *cobra.Command) {
	root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	root.RegisterFlagCompletionFunc("dir", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
	root.RegisterFlagCompletionFunc("scope", func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		global.scope = ""
		seen := map[string]bool{}
		var offers []string
		for _, l := range owned(c) {
			if !seen[l.Scope] && strings.HasPrefix(l.Scope, typed) {
				seen[l.Scope] = true
				offers = append(offers, l.Scope)
			}
		}
		return offers, cobra.ShellCompDirectiveNoFileComp
	})
	for _, c := range root.Commands() {
		if strings.Contains(c.Use, "ID|NAME") && c.ValidArgsFunction == nil {
			if c.ValidArgsFunction = completeLive; c.Name() == "forget" {
				c.ValidArgsFunction = completeLaunch
			}
		}
		if c.Flags().Lookup("require") != nil {
			c.RegisterFlagCompletionFunc("require", cobra.FixedCompletions([]string{"group", "lineage", "cgroup", "pidns"}, cobra.ShellCompDirectiveNoFileComp))
		}
		if c.Flags().Lookup("phase") != nil {
			c.RegisterFlagCompletionFunc("phase", cobra.FixedCompletions([]string{"TERM:10s", "INT:10s", "HUP:10s", "KILL:5s"}, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}
