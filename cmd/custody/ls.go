package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func lsCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "ls", Short: "Show what is owned", Args: none,
		Long: `ls shows every launch in the state directory, at which level it is contained,
and whether its owner is alive, dead, or closed: it ended in order, and left the
launch for somebody to adopt. MEMBERS counts the proven ones; "3+1?" means three,
and one that something ties to the launch but nothing proves. It changes nothing.

A launch that outlives its owner keeps its record for a day after it has ended,
for its exit status and its log; --all shows these too.`,
		Example: `  custody ls
  custody ls --all
  custody ls --scope browsers --json`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := custody.List(c.Context(), listOptions())
			if err != nil {
				return err
			}
			ls := shown(l.Launches, all)
			switch {
			case global.json:
				err = printJSON(ls)
			case len(ls) == 0:
				out.printf("%s\n", nothingOwned(len(l.Launches)))
			default:
				out.launches(ls, time.Now())
			}
			if err != nil {
				return err
			}
			return asideError(l.SetAside)
		},
	}
	allFlag(c, &all)
	return c
}

// allFlag is the flag by which what has ended is shown too.
func allFlag(c *cobra.Command, all *bool) {
	c.Flags().BoolVarP(all, "all", "a", false, "show launches that have ended too, as long as their records are kept")
}

// shown leaves out what has ended, unless all are wanted.
func shown(ls []custody.LaunchInfo, all bool) []custody.LaunchInfo {
	if all {
		return ls
	}
	return slices.DeleteFunc(slices.Clone(ls), func(l custody.LaunchInfo) bool { return l.State == "ended" })
}

// launches prints one line a launch.
func (s *screen) launches(ls []custody.LaunchInfo, now time.Time) {
	scopes := map[string]bool{}
	for _, l := range ls {
		scopes[l.Scope] = true
	}
	header := []string{"ID", "NAME", "STATE", "LEVEL", "PID", "MEMBERS", "AGE", "OWNER", "COMMAND"}
	many := len(scopes) > 1
	if many {
		header = append([]string{"SCOPE"}, header...)
	}
	var rows [][]string
	for _, l := range ls {
		row := []string{
			l.ID.Short(), or(l.Name, "-"), s.word(l.State), or(string(l.Level), "-"), number(l.PID),
			members(l), age(l.StartedAt, now), s.word(life(l.Owner)), shownCommand(l.Command),
		}
		if many {
			row = append([]string{l.Scope}, row...)
		}
		rows = append(rows, row)
	}
	s.columns(header, rows)
}

// nothingOwned says so, where so many have ended.
func nothingOwned(ended int) string {
	where := ""
	if global.scope != "" {
		where = " in scope " + global.scope
	}
	if ended > 0 {
		return "nothing is owned" + where + "; 'custody ls --all' shows " + count(ended, "launch", "launches") + " that ended"
	}
	return "nothing is owned" + where + "; 'custody run -- COMMAND' starts something"
}

// members counts the proven ones, and the suspects apart.
func members(l custody.LaunchInfo) string {
	n := strconv.Itoa(len(l.Members))
	if k := len(l.Suspects); k > 0 {
		n += "+" + strconv.Itoa(k) + "?"
	}
	return n
}

func life(o custody.OwnerInfo) string {
	switch {
	case o.Alive:
		return "alive"
	case o.Closed:
		return "closed"
	}
	return "dead"
}

func number(pid int) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(pid)
}
