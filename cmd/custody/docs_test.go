package main

// docs/cli.md is made from the commands themselves, and from the JSON examples
// that golden_test.go guards: it can't be out of date.

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const docsHead = `# The command line

This file is made by ` + "`go test ./cmd/custody -update`" + `; a test fails when it is out of date.

What was asked for goes to standard output, everything else to standard error. Colour, cut lines and a live line are
for terminals; in a pipe everything is plain and whole. ` + "`NO_COLOR`" + ` is honoured. What a process or a record says
of itself is shown with its control characters quoted; what ` + "`run`" + ` and ` + "`logs`" + ` pass on is the command's own, as it is.

A launch is named by its id, by at least the first four digits of it, or by its name. Verdicts are exactly ` + "`owned`" + `,
` + "`gone`" + `, ` + "`foreign`" + ` and ` + "`unsure`" + `; only ` + "`owned`" + ` is ever signalled.

## Exit codes

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | something could not be ended, or records were set aside: not believed, nothing signalled for them, not deleted |
| 125 | custody failed: bad flags, a missing command, an unknown id, an unreadable state directory, … |
| 126 | ` + "`run`, `start`" + `: the command can't be executed |
| 127 | ` + "`run`, `start`" + `: the command was not found |
| other | ` + "`run`, `wait`" + `: the command's own, or 128 plus the number of the signal that ended it; with ` + "`run`" + ` that signal ends custody too, where it can |

## Environment

| variable | meaning |
| --- | --- |
| ` + "`CUSTODY_DIR`" + ` | the state directory; ` + "`--dir`" + ` goes before it |
| ` + "`XDG_STATE_HOME`, `HOME`" + ` | where it is otherwise: ` + "`custody`" + ` below the first, else ` + "`.local/state/custody`" + ` below the second, else ` + "`/run/custody`" + ` for root |
| ` + "`NO_COLOR`, `TERM=dumb`" + ` | no colour |
| ` + "`LC_ALL`, `LC_CTYPE`, `LANG`" + ` | marks and tree lines beyond ASCII only where the locale is UTF-8 |
| ` + "`CUSTODY_LAUNCH`" + ` | set for every launch: its id |

## Errors under --json

With ` + "`--json`" + ` an error is one JSON value on standard error. Where records were set aside they are in it. ` + "`kind`" + `
tells apart what a program may want to answer to; it is left out where there is nothing but the text.

`

func TestDocs(t *testing.T) {
	var b strings.Builder
	b.WriteString(docsHead)
	example(t, &b, "error")
	example(t, &b, "error-setaside")
	b.WriteString("| kind | meaning |\n| --- | --- |\n")
	told := map[string]bool{}
	for _, k := range kinds {
		if told[k.word] {
			t.Errorf("kind %s is told twice", k.word)
		}
		told[k.word] = true
		fmt.Fprintf(&b, "| `%s` | %s |\n", k.word, k.meaning)
	}
	b.WriteByte('\n')
	global = common{}
	r := root()
	b.WriteString("## Flags of every command\n\n")
	flagTable(&b, r.PersistentFlags())
	for _, c := range r.Commands() {
		if c.Hidden || !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		command(t, &b, c)
	}
	b.WriteString("## custody completion\n\n`custody completion bash|zsh|fish|powershell` prints a script that completes commands, flags, and\nthe names and ids of launches. `custody completion bash --help` says how to load it.\n")
	path := filepath.Join("..", "..", "docs", "cli.md")
	golden(t, path, []byte(b.String()))
}

func command(t *testing.T, b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "## %s\n\n```\n%s\n```\n\n", c.CommandPath(), c.UseLine())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "%s\n\n", text)
	if c.Example != "" {
		fmt.Fprintf(b, "```sh\n%s\n```\n\n", unindent(c.Example))
	}
	if c.LocalNonPersistentFlags().HasAvailableFlags() {
		flagTable(b, c.LocalNonPersistentFlags())
	}
	if examples(t)[c.Name()] != nil {
		fmt.Fprintf(b, "With `--json`%s:\n\n", jsonNotes[c.Name()])
		example(t, b, c.Name())
	}
}

// jsonNotes says what an example alone doesn't show.
var jsonNotes = map[string]string{
	"ls":      ", an array of launches. `command` is an argument list, never one string; `state` is `intent`, `running`, `stopping`, `exited`, `released` or (with `--all`) `ended` as recorded, or the verdict where nothing proven lives; `suspects` is left out where there are none",
	"tree":    ", the launches of `ls` by scope and owner",
	"explain": ", one object for a pid, an array of them for a launch; `launch` is null where no launch has to do with the process; `role` is `leader`, `member`, `owner`, `keeper`, `watchdog` or left out; `holds` is `true`, `false`, or `null` where it could not be told",
	"status":  "; `start` and `adopt` print the same. `state` is `running`, `exited`, `gone`, `foreign` or `unsure`; `exit` is left out while it is not known, its `signal` where none ended the leader; `exit_lost` says that it will never be",
	"wait":    "; `code` is -1 where a signal ended it, whose name is `signal` then",
	"stop":    "; `outcome` is `gone`, `incomplete`, `foreign` or `released`",
	"sweep":   "; `outcome` is `gone`, `incomplete`, `foreign`, `survives`, `released` or `ended` (gone before, its exit status is kept), in a dry run also `would-stop` or `would-free`",
	"doctor":  "; `answer` and `available` are `true`, `false`, or `null` where it could not be told",
}

func example(t *testing.T, b *strings.Builder, name string) {
	fmt.Fprintf(b, "```json\n%s```\n\n", indented(t, examples(t)[name]))
}

func flagTable(b *strings.Builder, fs *pflag.FlagSet) {
	b.WriteString("| flag | meaning |\n| --- | --- |\n")
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "`--" + f.Name
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if value != "" {
			name += " " + value
		}
		fmt.Fprintf(b, "| %s` | %s |\n", name, strings.ReplaceAll(usage, "|", "\\|"))
	})
	b.WriteString("\n")
}

func unindent(s string) string {
	var lines []string
	for l := range strings.SplitSeq(s, "\n") {
		lines = append(lines, strings.TrimPrefix(l, "  "))
	}
	return strings.Join(lines, "\n")
}
