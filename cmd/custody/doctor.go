package main

import (
	"errors"

	"github.com/custody-project/custody"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
)

func doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say what this host can guarantee, and what is missing for more",
		Long: `doctor asks the kernel for everything custody uses, by using each once, and looks
at the state directory. It says which levels of containment can be had here and
what is missing for the others; and, for launches that are to survive, what the
service unit, the login session and the PID 1 above us would do to them. It exits
with 125 if custody can't work here.`,
		Args: none, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			d := custody.Doctor(custody.Options{Dir: global.dir, AllowNetworkFS: global.net})
			if global.json {
				if err := printJSON(d); err != nil {
					return err
				}
			} else {
				out.diagnosis(d)
			}
			if !d.OK() {
				return errors.New("doctor: custody can't work here; the failed checks name the remedy")
			}
			return nil
		},
	}
}

func (s *screen) diagnosis(d custody.Diagnosis) {
	s.printf("system           %s\n", d.System)
	s.printf("state directory  %s\n", or(shownText(d.StateDir), "none"))
	s.printf("\n%s\n", s.bold("checks"))
	for _, c := range d.Checks {
		s.printf("  %s %s %s\n", s.answer(c.Answer), text.Pad(c.Name, 16, ' '), shownText(c.Detail))
		if c.Answer != custody.Yes && c.Remedy != "" {
			s.printf("    %s remedy: %s\n", text.Pad("", 16, ' '), c.Remedy)
		}
	}
	s.printf("\n%s\n", s.bold("levels"))
	for _, l := range d.Levels {
		if l.Available == custody.Yes {
			s.printf("  %s %s\n", s.answer(l.Available), l.Level)
			continue
		}
		s.printf("  %s %s missing: %s\n", s.answer(l.Available), text.Pad(string(l.Level), 16, ' '), shownText(l.Missing))
		if l.Remedy != "" {
			s.printf("    %s remedy: %s\n", text.Pad("", 16, ' '), l.Remedy)
		}
	}
}

func (s *screen) answer(a custody.Answer) string {
	switch a {
	case custody.Yes:
		return s.paint(s.mark("✓", "+"), text.FgGreen)
	case custody.No:
		return s.paint(s.mark("✗", "x"), text.FgRed)
	}
	return s.paint("?", text.FgYellow)
}
