package custody

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/custody-project/custody/internal/logfile"
)

// Readiness by what the launch says, and what it said last.

// mostLine bounds the line that is looked at: of a longer one it is the end.
const mostLine = 64 << 10

// logMark begins the lines of the log that are not the launch's.
const logMark = "[custody: "

var errFound = errors.New("found")

// finder is a writer that ends with errFound at the first line that matches.
type finder struct {
	re   *regexp.Regexp
	line []byte
}

func (f *finder) Write(p []byte) (int, error) {
	n := len(p)
	for {
		part, rest, whole := bytes.Cut(p, []byte("\n"))
		f.line = append(f.line, part...)
		if over := len(f.line) - mostLine; over > 0 {
			f.line = append(f.line[:0], f.line[over:]...)
		}
		if !whole {
			return n, nil
		}
		line := bytes.TrimSuffix(f.line, []byte("\r"))
		if !bytes.HasPrefix(line, []byte(logMark)) && f.re.Match(line) {
			return 0, errFound
		}
		f.line, p = f.line[:0], rest
	}
}

// lineWatch waits for a line of the log.
type lineWatch struct {
	done chan struct{}
	err  error // once done: nil if the line is there
}

// watchLog begins to read the launch's log for a line that matches, within ctx.
func (s *subject) watchLog(ctx context.Context, re *regexp.Regexp) *lineWatch {
	w := &lineWatch{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			w.err = logfile.Copy(ctx, &finder{re: re}, s.logs, s.rec.ID, logfile.Reading{Follow: true})
			if errors.Is(w.err, errFound) {
				w.err = nil
				return
			}
			if !errors.Is(w.err, fs.ErrNotExist) { // not made yet
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return w
}

// written reports whether the line is there.
func (w *readiness) written() bool {
	w.why = "no line of its log matches"
	select {
	case <-w.log.done:
	default:
		return false
	}
	if err := w.log.err; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		w.broken = err
	}
	return w.log.err == nil
}

// lastLines returns the end of the log of a launch whose leader has ended: what
// it said last may still be on its way.
func (s *subject) lastLines(ctx context.Context) []string {
	if s.rec.Log == nil {
		return nil
	}
	select {
	case <-s.gone:
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	var b bytes.Buffer
	if logfile.Copy(context.WithoutCancel(ctx), &b, s.logs, s.rec.ID, logfile.Reading{Last: 5}) != nil {
		return nil
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, cutLine(strings.TrimRight(line, "\r\n")))
	}
	return lines
}

func cutLine(s string) string {
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return s
}
