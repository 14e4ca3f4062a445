package main

import (
	"context"
	"strings"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status ID|NAME", Short: "Tell what is the matter with one launch",
		Long: `status asks the kernel about one launch and says one of

  running   a proven member lives
  exited    it has ended, and how its command ended is known
  gone      it has ended, and that is not known
  foreign   it is of another machine or PID namespace, or was released
  unsure    something could not be asked; the reason says what

It changes nothing, and exits with 0 whatever the answer is.`,
		Example: `  custody status llama
  custody status 3f2a91c4 --json`,
		Args:              one("launch", "custody status llama"),
		ValidArgsFunction: completeLaunch,
		RunE:              func(c *cobra.Command, args []string) error { return printStatus(c.Context(), args[0]) },
	}
}

func printStatus(ctx context.Context, launch string) error {
	st, err := custody.StatusOf(ctx, launch, listOptions())
	if err != nil {
		return err
	}
	if global.json {
		return printJSON(st)
	}
	out.status(st)
	return nil
}

// status prints one launch, its name for it first.
func (s *screen) status(st custody.Status) {
	line := s.bold(st.ID.Short())
	if st.Name != "" {
		line += " " + s.bold(st.Name)
	}
	word, rest, _ := strings.Cut(st.String(), " ")
	line += " " + s.word(word)
	if rest != "" {
		line += " " + shownText(rest)
	}
	if c := st.Container; c != nil {
		line += s.faint(" container " + shownText(c.Name) + " of " + shownText(c.Image))
	} else if st.State == custody.StateRunning {
		pid := ""
		if !st.LeaderGone {
			pid = "pid " + number(st.PID) + ", "
		}
		line += s.faint(" " + pid + count(len(st.PIDs), "member", "members") + ", level " + string(st.Level))
	}
	if st.State == custody.StateRunning {
		line += s.faint(", owner "+number(st.Owner.PID)+" ") + s.word(life(st.Owner))
	}
	s.printf("%s\n", line)
	for _, p := range st.Ports {
		s.printf("  port %d\n", p)
	}
	if h := st.StopHook; h != nil {
		s.printf("  stop hook %s: %s\n", shownText(shownCommand(h.Command)), shownText(h.String()))
	} else if st.State == custody.StateRunning && st.Container == nil {
		s.printf("  %s\n", s.faint("no stop hook: what other services do for it does not end with it"))
	}
	if l := st.Log; l != nil {
		s.printf("  log %s\n", shownText(l.Path))
		if l.Lost > 0 {
			s.printf("  %s of its output could not be written\n", count(int(l.Lost), "byte", "bytes"))
		}
	}
}
