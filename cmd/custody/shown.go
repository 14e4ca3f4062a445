package main

// How times, commands and foreign text are shown.

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
)

// shownCommand returns an argument list as a shell would take it.
func shownCommand(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = shellQuote(a)
	}
	return strings.Join(quoted, " ")
}

func shellQuote(s string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_"
	if s == "" {
		return "''"
	}
	if strings.Trim(s, safe) == "" {
		return s
	}
	if quoted := shownText(s); quoted != s { // control characters
		return "$'" + strings.ReplaceAll(quoted, "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shownText quotes what could act on a terminal instead of being read.
func shownText(s string) string {
	bad := func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// age is how long ago t was, in one unit.
func age(t, now time.Time) string {
	d := max(now.Sub(t), 0)
	switch {
	case t.IsZero():
		return "?"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// cut shortens s to at most width columns; 0 leaves it whole.
func (s *screen) cut(t string, width int) string {
	if width <= 0 || text.StringWidthWithoutEscSequences(t) <= width {
		return t
	}
	return text.Snip(t, width, s.mark("…", "~"))
}

// count is "1 process", "3 processes".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// or returns s, or a dash for an empty cell.
func or(s, dash string) string {
	if s == "" {
		return dash
	}
	return s
}
