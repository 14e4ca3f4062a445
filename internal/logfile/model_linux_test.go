package logfile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/custody-project/custody/proof"
	"pgregory.net/rapid"
)

// Writers and readers against a model: the model is the stream, and whatever
// happens a reader's output is that stream, with the bytes that it says were
// rotated away left out.
func TestReaderAgainstModel(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		must(t, os.Mkdir(dir, 0o700))
		defer os.RemoveAll(dir)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		id := proof.NewID()
		cfg := Config{MaxBytes: rapid.Int64Range(minBytes, 8<<10).Draw(rt, "max"), Files: rapid.IntRange(1, 4).Draw(rt, "files")}
		w, err := Open(dir, id, cfg)
		must(t, err)
		defer func() { w.Close() }()

		var stream strings.Builder
		type follower struct {
			r     *reader
			begun int // in the stream
			out   *strings.Builder
		}
		var readers []*follower
		defer func() {
			for _, f := range readers {
				f.r.close()
				f.r.dir.Close()
			}
		}()
		catchUp := func(f *follower) {
			for {
				more, err := f.r.step(ctx)
				must(t, err)
				if !more {
					return
				}
			}
		}
		line := 0
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				var b strings.Builder
				for range rapid.IntRange(1, 20).Draw(rt, "lines") {
					line++
					fmt.Fprintf(&b, "%d %s\n", line, strings.Repeat("x", rapid.SampledFrom([]int{0, 3, 80, 500, 5000}).Draw(rt, "length")))
				}
				s := b.String()
				if cut := rapid.IntRange(0, 9).Draw(rt, "cut"); cut < 3 {
					s = s[:len(s)-1] // the line goes on
				}
				stream.WriteString(s)
				write(t, w, s)
			},
			"reopen": func(rt *rapid.T) {
				must(t, w.Close())
				w, err = Open(dir, id, cfg)
				must(t, err)
			},
			"follow": func(rt *rapid.T) {
				if len(readers) > 3 {
					return
				}
				r, out := testReader(t, dir, id)
				must(t, r.begin(ctx, Reading{Follow: true}))
				readers = append(readers, &follower{r, stream.Len() - kept(dir, id), out})
			},
			"step": func(rt *rapid.T) {
				if len(readers) > 0 {
					_, err := rapid.SampledFrom(readers).Draw(rt, "reader").r.step(ctx)
					must(t, err)
				}
			},
			"catch up": func(rt *rapid.T) {
				if len(readers) > 0 {
					catchUp(rapid.SampledFrom(readers).Draw(rt, "reader"))
				}
			},
			"": func(rt *rapid.T) {
				if size, _ := sizes(dir); size > cfg.MaxBytes*int64(cfg.Files) {
					rt.Fatalf("%d bytes, bound %d", size, cfg.MaxBytes*int64(cfg.Files))
				}
			},
		})
		for i, f := range readers {
			catchUp(f)
			if why := compare(f.out.String(), stream.String()[f.begun:]); why != "" {
				rt.Fatalf("reader %d: %s", i, why)
			}
		}
		// The last lines are the last lines of what is kept.
		want := stream.String()[stream.Len()-kept(dir, id):]
		if got := read(t, dir, id, Reading{}); got != want {
			rt.Fatalf("all: %d bytes, want %d", len(got), len(want))
		}
		n := rapid.IntRange(1, 30).Draw(rt, "last")
		lines := strings.SplitAfter(want, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		if got, want := read(t, dir, id, Reading{Last: n}), strings.Join(lines[max(0, len(lines)-n):], ""); got != want {
			rt.Fatalf("last %d: %.100q, want %.100q", n, got, want)
		}
	})
}

func testReader(t *testing.T, dir string, id proof.ID) (*reader, *strings.Builder) {
	logs, err := os.OpenRoot(filepath.Join(dir, "logs"))
	must(t, err)
	out := new(strings.Builder)
	return &reader{dir: logs, base: base(id), out: out, buf: make([]byte, 700), lineEnd: true}, out
}

// kept is how many bytes of the stream are in files.
func kept(dir string, id proof.ID) int {
	size, _ := sizes(dir)
	if _, err := os.Stat(filepath.Join(dir, "logs", positionName(base(id)))); err == nil {
		size -= positionBytes
	}
	return int(size)
}

// compare returns how out differs from the stream, of which it may leave out
// what it says.
func compare(out, stream string) string {
	for out != "" {
		head, rest, more := strings.Cut(out, "[custody: ")
		if more && !strings.HasPrefix(stream, head) {
			head = strings.TrimSuffix(head, "\n") // ours
		}
		if !strings.HasPrefix(stream, head) {
			return fmt.Sprintf("%.100q where the stream says %.100q", head, stream)
		}
		stream = stream[len(head):]
		if out = ""; more {
			var n int
			if _, err := fmt.Sscanf(rest, "%d bytes were rotated away]\n", &n); err != nil || n > len(stream) {
				return fmt.Sprintf("%.100q", rest)
			}
			stream = stream[n:]
			_, out, _ = strings.Cut(rest, "\n")
		}
	}
	if stream != "" {
		return fmt.Sprintf("%d bytes are missing at the end", len(stream))
	}
	return ""
}
