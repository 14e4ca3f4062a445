package main

import (
	"strconv"
	"time"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func lsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "Show what is owned", Args: none,
		Long: `ls shows every launch in the state directory, at which level it is contained,
and whether its owner lives. MEMBERS counts the proven ones; "3+1?" means three,
and one that something ties to the launch but nothing proves. It changes nothing.`,
		Example: `  custody ls
  custody ls --scope browsers --json`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := custody.List(c.Context(), listOptions())
			if err != nil {
				return err
			}
			if global.json {
				err = printJSON(l.Launches)
			} else {
				out.launches(l.Launches, time.Now())
			}
			if err != nil {
				return err
			}
			return asideError(l.SetAside)
		},
	}
}

// launches prints one line a launch.
func (s *screen) launches(ls []custody.LaunchInfo, now time.Time) {
	if len(ls) == 0 {
		s.printf("%s\n", nothingOwned())
		return
	}
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

func nothingOwned() string {
	where := ""
	if global.scope != "" {
		where = " in scope " + global.scope
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
	if o.Alive {
		return "alive"
	}
	return "dead"
}

func number(pid int) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(pid)
}
