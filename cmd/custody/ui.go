package main

// The rules of what a user sees:
//
//   - What was asked for goes to standard output, and nothing else does.
//   - Errors, warnings and progress go to standard error. Each line starts with
//     "custody: ", in lower case, without a full stop; an error says what was
//     refused, which fact was missing, and after a semicolon what to do.
//   - Under --json standard output is one JSON value, and so is an error.
//   - Colour, cut lines and a line that is written over are for terminals. In
//     a pipe everything is plain and whole, unless --color=always.
//   - What a process or a record says of itself is shown with its control
//     characters quoted: it must not write on the user's terminal. Output that
//     is only passed on (run, logs) is the command's own, as it is.
//   - Box drawing and marks beyond ASCII only in a UTF-8 locale.

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/custody-project/custody"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// screen is one stream to a person.
type screen struct {
	w     io.Writer
	tty   bool
	color bool
	utf8  bool
	width int // columns; 0 where lines are not cut
	err   error
}

// Standard output and standard error, as setUp found them.
var out, errs = &screen{w: os.Stdout}, &screen{w: os.Stderr}

// setUp looks at the streams once the flags are known.
func setUp() error {
	switch global.color {
	case "auto", "always", "never":
	default:
		return fmt.Errorf("color %.40q: want auto, always or never", global.color)
	}
	out, errs = look(os.Stdout), look(os.Stderr)
	text.EnableColors() // whether to paint is decided here, by each screen
	return nil
}

func look(f *os.File) *screen {
	s := &screen{w: f, tty: term.IsTerminal(int(f.Fd())), utf8: utf8Locale()}
	s.color = global.color == "always"
	if s.tty {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.width = w
		}
		s.color = s.color || global.color == "auto" && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return s
}

func utf8Locale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// printf prints, and keeps the first failure: who asked for output and did not
// get it must learn of it by the exit status.
func (s *screen) printf(format string, v ...any) {
	if _, err := fmt.Fprintf(s.w, format, v...); err != nil && s.err == nil {
		s.err = err
	}
}

func (s *screen) paint(t string, colors ...text.Color) string {
	if !s.color || t == "" {
		return t
	}
	return text.Colors(colors).Sprint(t)
}

// word paints a word of custody's vocabulary by what it means to the reader.
func (s *screen) word(w string) string {
	switch w {
	case "owned", "running", "alive", "yes":
		return s.paint(w, text.FgGreen)
	case "unsure", "incomplete", "unknown", "stopping", "intent", "would-stop":
		return s.paint(w, text.FgYellow)
	case "dead", "no":
		return s.paint(w, text.FgRed)
	case "gone", "exited", "released", "closed", "would-free":
		return s.paint(w, text.Faint)
	case "foreign", "survives":
		return s.paint(w, text.FgCyan)
	}
	return w
}

func (s *screen) bold(t string) string  { return s.paint(t, text.Bold) }
func (s *screen) faint(t string) string { return s.paint(t, text.Faint) }

// mark returns a sign where it can be shown, else its stand-in.
func (s *screen) mark(sign, ascii string) string {
	if s.utf8 {
		return sign
	}
	return ascii
}

// printJSON prints v for machines.
func printJSON(v any) error {
	e := json.NewEncoder(out.w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// jsonError is an error under --json.
type jsonError struct {
	Error    string             `json:"error"`
	Code     int                `json:"code"`
	Kind     string             `json:"kind,omitempty"`
	SetAside []custody.SetAside `json:"set_aside,omitempty"`
}

// complain tells of an error that custody failed by.
func complain(err error) { complainCode(err, exitCode(err)) }

func complainCode(err error, code int) {
	msg := strings.TrimPrefix(err.Error(), "custody: ")
	aside := setAsideOf(err)
	if global.json {
		e := json.NewEncoder(errs.w)
		e.SetEscapeHTML(false)
		e.Encode(jsonError{msg, code, kindOf(err), aside})
		return
	}
	say("%s", shownText(msg))
	for _, a := range aside {
		say("set aside %s: %s", shownText(a.Path), shownText(a.Reason))
	}
}

// say writes one line for people to standard error.
func say(format string, v ...any) {
	errs.printf("%s%s\n", errs.paint("custody: ", text.Bold), fmt.Sprintf(format, v...))
}
