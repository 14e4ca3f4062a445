package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

func logsCommand() *cobra.Command {
	var follow bool
	var lines int
	var b bound
	c := &cobra.Command{
		Use: "logs ID|NAME", Short: "Print what a launch has written",
		Long: `logs prints the output of a launch that 'custody start' began, from its log of
bounded size: the oldest that is kept first. With --follow it goes on, and ends
when the launch has ended and all is printed, or when custody's own parent dies.

Lines that begin with "[custody: " are not the command's: they tell how much
output a full disk lost, or was rotated away before it could be printed. With
--json each line is one object {"line": "…"}.`,
		Example: `  custody logs llama --lines 100
  custody logs llama --follow`,
		Args:              one("launch", "custody logs llama"),
		ValidArgsFunction: completeLaunch,
		RunE: func(c *cobra.Command, args []string) error {
			if lines < 0 {
				return fmt.Errorf("logs: --lines %d: want a number of lines, 0 for none", lines)
			}
			opt := custody.LogOptions{Dir: global.dir, Scope: global.scope, AllowNetworkFS: global.net, Follow: follow, Last: lines}
			if lines == 0 && c.Flags().Changed("lines") {
				opt.Last = -1
			}
			var to io.Writer = os.Stdout
			rows := &jsonLines{out: os.Stdout}
			if global.json {
				to = rows
			}
			b.noParent = b.noParent || !follow
			err := b.wait(c.Context(), "logs", func(ctx context.Context) error {
				return custody.Logs(ctx, args[0], to, opt)
			})
			if e := rows.flush(); err == nil {
				err = e
			}
			if errors.Is(err, syscall.EPIPE) {
				return nil // whoever read has enough
			}
			return err
		},
	}
	b.add(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the launch has ended")
	c.Flags().IntVarP(&lines, "lines", "n", 0, "print the last `N` lines only (default all)")
	return c
}

// jsonLines turns lines into objects, one a line.
type jsonLines struct {
	out  io.Writer
	rest []byte
}

// longestLine is where a line that does not end is cut.
const longestLine = 1 << 20

func (j *jsonLines) Write(p []byte) (int, error) {
	j.rest = append(j.rest, p...)
	for {
		i := bytes.IndexByte(j.rest, '\n')
		if i < 0 && len(j.rest) < longestLine {
			return len(p), nil
		}
		if i < 0 {
			i = len(j.rest) - 1
		}
		line := j.rest[:i+1]
		if err := j.print(line); err != nil {
			return 0, err
		}
		j.rest = append(j.rest[:0], j.rest[i+1:]...)
	}
}

func (j *jsonLines) print(line []byte) error {
	b, err := json.Marshal(struct {
		Line string `json:"line"`
	}{strings.TrimSuffix(string(line), "\n")})
	if err == nil {
		_, err = j.out.Write(append(b, '\n'))
	}
	return err
}

// flush prints a last line that was not ended.
func (j *jsonLines) flush() error {
	if len(j.rest) == 0 {
		return nil
	}
	return j.print(j.rest)
}
