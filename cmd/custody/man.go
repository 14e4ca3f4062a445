package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man [DIRECTORY]", Short: "Write the manual pages",
		Long: `man prints the manual page of custody, or writes one page for each command into
an existing directory.`,
		Example: `  custody man | man -l -
  custody man /usr/local/share/man/man1`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			h := &doc.GenManHeader{Title: "CUSTODY", Section: "1", Source: "custody " + readVersion().Version, Manual: "custody"}
			c.Root().DisableAutoGenTag = true
			if len(args) == 0 {
				return doc.GenMan(c.Root(), h, out.w)
			}
			if fi, err := os.Stat(args[0]); err != nil {
				return fmt.Errorf("man: %w", err)
			} else if !fi.IsDir() {
				return fmt.Errorf("man: %s is no directory", args[0])
			}
			h.Title = "" // each page is titled after its command
			return doc.GenManTree(c.Root(), h, args[0])
		},
	}
}
