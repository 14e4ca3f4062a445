package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/custody-project/custody"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

func explainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain PID|ID|NAME", Short: "Say whose a process is, on what evidence, and if it would be signalled",
		Long: `explain says whose a process is: owned, gone, foreign or unsure. It shows every
fact that was asked, where the answer came from and whether it holds, and
whether custody would signal the process. For a launch it explains each of its
processes; a number of up to seven digits is a pid. It changes nothing and signals nothing.`,
		Example: `  custody explain 4711
  custody explain web --json`,
		Args:              one("pid or launch", "custody explain 4711"),
		ValidArgsFunction: completeLaunch,
		RunE: func(c *cobra.Command, args []string) error {
			xs, err := custody.Explain(c.Context(), args[0], listOptions())
			if err != nil {
				return err
			}
			_, notPID := strconv.Atoi(args[0])
			if global.json && notPID == nil && len(args[0]) < 8 {
				return printJSON(xs[0])
			}
			if global.json {
				return printJSON(xs)
			}
			for i, x := range xs {
				if i > 0 {
					out.printf("\n")
				}
				out.explanation(x)
			}
			return nil
		},
	}
}

// explanation prints the verdict first, then what it rests on, then what
// would be done.
func (s *screen) explanation(x custody.Explanation) {
	s.printf("%s\n", s.verdictLine(x))
	if line := shownCommand(x.Command); line != "" {
		s.printf("  %s\n", s.cut(line, s.width-2))
	}
	s.printf("  because: %s\n", shownText(x.Reason))
	if len(x.Evidence) > 0 {
		var rows [][]string
		for _, e := range x.Evidence {
			rows = append(rows, []string{"  " + s.holds(e.Holds), strings.ReplaceAll(string(e.Fact), "_", " "), e.Source})
		}
		s.printf("\n")
		s.columns([]string{"  HOLDS", "FACT", "ASKED OF"}, rows)
		s.printf("\n")
	}
	s.printf("  %s\n", s.wouldSignal(x))
}

func (s *screen) verdictLine(x custody.Explanation) string {
	who := fmt.Sprintf("process %d", x.PID)
	if x.PID == 0 {
		who = "no process"
	}
	launch := ""
	if x.Launch != nil {
		launch = "launch " + x.Launch.Short()
		if x.Name != "" {
			launch += " (" + x.Name + ")"
		}
	}
	verdict := s.paint(x.Verdict.String(), text.Bold)
	if s.color {
		verdict = s.word(x.Verdict.String())
	}
	t := fmt.Sprintf("%s is %s", s.bold(who), verdict)
	switch {
	case x.Verdict == custody.Owned && x.Role == custody.RoleLeader:
		t += ": the leader of " + launch
	case x.Verdict == custody.Owned && x.Role == custody.RoleMember:
		t += ": a member of " + launch
	case x.Verdict == custody.Owned:
		t += fmt.Sprintf(": a member of %s, and itself custody's %s", launch, x.Role)
	case x.Verdict == custody.Gone && launch != "":
		t += fmt.Sprintf(": it was of %s", launch)
	case x.Verdict == custody.Gone:
		t += ": it has ended"
	case x.Verdict == custody.Unsure && launch != "":
		t += fmt.Sprintf(": something ties it to %s, nothing proves it", launch)
	case x.Role != custody.RoleNone:
		t += fmt.Sprintf(": no member of a launch, but custody's %s", x.Role)
	case x.Verdict == custody.Foreign && launch != "":
		t += fmt.Sprintf(": it is not of %s", launch)
	case x.Verdict == custody.Foreign:
		t += ": it is nobody's that custody knows of"
	}
	return t
}

func (s *screen) wouldSignal(x custody.Explanation) string {
	switch {
	case x.WouldSignal:
		return "would be signalled: " + s.paint("yes", text.FgGreen) + ", if its launch is stopped, through its own handle and after being proven again"
	case x.Verdict == custody.Gone:
		return "would be signalled: no, there is nothing left to signal"
	case x.Verdict == custody.Unsure:
		return "would be signalled: " + s.paint("no", text.FgYellow) + ", what is not proven is only reported"
	}
	return "would be signalled: no, only what is proven to be owned ever is"
}

func (s *screen) holds(a custody.Answer) string {
	return s.word(a.String())
}
