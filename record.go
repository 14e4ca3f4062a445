package custody

import (
	"fmt"
	"unicode/utf8"
)

// A record is read whole again and again, so what callers put into it has a
// size: the command line, which is there for people, is cut; labels, which are
// the caller's to find launches by, are refused.

const (
	mostCommand = 4 << 10  // bytes of the command line in a record
	mostLabels  = 32 << 10 // bytes of names and values
)

// brief returns the arguments as they are recorded: the first few thousand
// bytes, and how many are missing.
func brief(args []string) []string {
	room := mostCommand
	for i, a := range args {
		if len(a) < room {
			room -= len(a) + 1
			continue
		}
		for room > 0 && room < len(a) && !utf8.RuneStart(a[room]) {
			room--
		}
		out := append([]string{}, args[:i]...)
		if room > 0 {
			out = append(out, a[:room]+"…")
		}
		if more := len(args) - len(out); more > 0 {
			out = append(out, fmt.Sprintf("… (%d more)", more))
		}
		return out
	}
	return args
}

func checkLabels(labels map[string]string) error {
	n := 0
	for k, v := range labels {
		n += len(k) + len(v)
	}
	if n > mostLabels {
		return fmt.Errorf("labels of %d bytes: at most %d are kept", n, mostLabels)
	}
	return nil
}
