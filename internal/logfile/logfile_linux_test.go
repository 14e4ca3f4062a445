package logfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/proof"
)

func TestWriteAndRead(t *testing.T) {
	dir, id := scope(t), proof.NewID()
	w := openLog(t, dir, id, Config{})
	write(t, w, "one\ntwo\n")
	write(t, w, "thr")
	write(t, w, "ee\nfour")
	for _, c := range []struct {
		last int
		want string
	}{{0, "one\ntwo\nthree\nfour"}, {1, "four"}, {2, "three\nfour"}, {4, "one\ntwo\nthree\nfour"}, {9, "one\ntwo\nthree\nfour"}, {-1, ""}} {
		if got := read(t, dir, id, Reading{Last: c.last}); got != c.want {
			t.Errorf("last %d: %q, want %q", c.last, got, c.want)
		}
	}
	fi, err := os.Stat(Path(dir, id))
	must(t, err)
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", fi.Mode())
	}
	// A second writer goes on where the first one ended.
	must(t, w.Close())
	w = openLog(t, dir, id, Config{})
	write(t, w, "th\nfive\n")
	if got := read(t, dir, id, Reading{Last: 2}); got != "fourth\nfive\n" {
		t.Errorf("continued: %q", got)
	}
	if _, err := w.Write(nil); err != nil {
		t.Error(err)
	}
	must(t, w.Close())
	if _, err := w.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	must(t, Remove(dir, id))
	must(t, Remove(dir, id))
	if left, _ := filepath.Glob(filepath.Join(dir, "logs", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := Copy(t.Context(), io.Discard, dir, id, Reading{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: %v", err)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{MaxBytes: 100}, {MaxBytes: -1}, {Files: -1}, {Files: 101}, {MaxBytes: 1 << 61}} {
		if _, err := Open(scope(t), proof.NewID(), c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

// Files end at line ends, unless a line is longer than a file, and never grow
// beyond their bound; together they are what was printed last.
func TestRotation(t *testing.T) {
	for _, files := range []int{1, 2, 5} {
		dir, id := scope(t), proof.NewID()
		cfg := Config{MaxBytes: 8 << 10, Files: files}
		w := openLog(t, dir, id, cfg)
		all := numberedLines(0, 5000)
		for rest := all; rest != ""; {
			n := min(len(rest), 777)
			write(t, w, rest[:n])
			rest = rest[n:]
			if size, _ := sizes(dir); size > cfg.MaxBytes*int64(files) {
				t.Fatalf("%d files: %d bytes, bound %d", files, size, cfg.MaxBytes*int64(files))
			}
		}
		got := read(t, dir, id, Reading{})
		expectInOrder(t, got, 4999)
		if len(got) < int(cfg.MaxBytes)*(files-1)/2 {
			t.Errorf("%d files: only %d bytes kept", files, len(got))
		}
		for k := range files {
			b, err := os.ReadFile(numbered(Path(dir, id), k))
			must(t, err)
			if k > 0 && !strings.HasSuffix(string(b), "\n") {
				t.Errorf("file %d of %d ends within a line: %q", k, files, b[len(b)-20:])
			}
			if int64(len(b)) > cfg.MaxBytes {
				t.Errorf("file %d of %d: %d bytes", k, files, len(b))
			}
		}
		if got, want := read(t, dir, id, Reading{Last: 300}), numberedLines(4700, 5000); files == 5 && got != want {
			t.Errorf("last 300 lines: %d bytes, want %d", len(got), len(want))
		}
	}
}

func TestLineLongerThanAFile(t *testing.T) {
	dir, id := scope(t), proof.NewID()
	w := openLog(t, dir, id, Config{MaxBytes: 4 << 10, Files: 4})
	write(t, w, "first\n")
	long := strings.Repeat("x", 9<<10) + "\n"
	write(t, w, long)
	write(t, w, "last\n")
	if got := read(t, dir, id, Reading{}); got != "first\n"+long+"last\n" {
		t.Errorf("%d bytes", len(got))
	}
	if got := read(t, dir, id, Reading{Last: 2}); got != long+"last\n" {
		t.Errorf("last two: %d bytes", len(got))
	}
}

// A gigabyte goes through three megabytes of disk, a reader that does not read
// holds up nobody and holds nothing, and one that reads gets lines in order.
func TestGigabyteInBoundedDisk(t *testing.T) {
	total := 1 << 30
	if testing.Short() {
		total = 64 << 20
	}
	dir, id := scope(t), proof.NewID()
	cfg := Config{MaxBytes: 1 << 20, Files: 3}
	w := openLog(t, dir, id, cfg)
	write(t, w, "the first line\n")
	stuck, err := os.Open(Path(dir, id))
	must(t, err)
	defer stuck.Close()

	var most atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			// The files one by one while they move: one may be counted twice.
			size, disk := sizes(dir)
			if max(size, disk) > most.Load() {
				most.Store(max(size, disk))
			}
			time.Sleep(time.Millisecond)
		}
	}()
	pr, pw := io.Pipe()
	copied := make(chan error, 1)
	go func() { copied <- Copy(t.Context(), pw, dir, id, Reading{Follow: true}) }()
	io.ReadFull(pr, make([]byte, 5)) // and then no more

	chunk := []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 655))
	began := time.Now()
	for n := 0; n < total; n += len(chunk) {
		w.Write(chunk)
	}
	took := time.Since(began)
	close(stop)
	<-stopped
	t.Logf("%d MB in %v, at most %d bytes seen on the disk", total>>20, took, most.Load())
	if lost, cause := w.Lost(); lost > 0 {
		t.Errorf("lost %d bytes: %v", lost, cause)
	}
	if size, _ := sizes(dir); size > cfg.MaxBytes*int64(cfg.Files) {
		t.Errorf("%d bytes in the end", size)
	}
	if bound := cfg.MaxBytes*int64(cfg.Files+1) + 64<<10; most.Load() > bound {
		t.Errorf("%d bytes on the disk, bound %d", most.Load(), bound)
	}
	// The file that the stuck reader holds takes no room.
	if fi, err := stuck.Stat(); err != nil || fi.Size() != 0 {
		t.Errorf("the first file: %d bytes, %v", fi.Size(), err)
	}
	pr.Close()
	if err := <-copied; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("reader: %v", err)
	}
}

// A reader that keeps up sees each line once, in order, and ends by itself.
func TestFollow(t *testing.T) {
	dir, id := scope(t), proof.NewID()
	w := openLog(t, dir, id, Config{MaxBytes: 64 << 10, Files: 4})
	write(t, w, numberedLines(0, 10))
	var ended atomic.Bool
	var seen atomic.Int64
	var got strings.Builder
	done := make(chan error, 1)
	go func() {
		done <- Copy(t.Context(), writerFunc(func(p []byte) (int, error) {
			seen.Add(int64(len(p)))
			return got.Write(p)
		}), dir, id, Reading{Follow: true, Ended: ended.Load})
	}()
	written := int64(len(numberedLines(0, 10)))
	for i := 10; i < 100_010; i += 100 {
		s := numberedLines(i, i+100)
		write(t, w, s)
		written += int64(len(s))
		// It keeps up: it may be two files behind, not more.
		until(t, "the reader keeps up", func() bool { return written-seen.Load() < 128<<10 })
	}
	must(t, w.Close())
	ended.Store(true)
	must(t, <-done)
	if got.String() != numberedLines(0, 100_010) {
		expectInOrder(t, got.String(), 100_009)
		t.Error("it is not what was written")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A reader that is left behind says how much it missed, to the byte.
func TestFollowLeftBehind(t *testing.T) {
	dir, id := scope(t), proof.NewID()
	w := openLog(t, dir, id, Config{MaxBytes: 4 << 10, Files: 2})
	write(t, w, numberedLines(0, 10))
	var ended atomic.Bool
	var got strings.Builder
	first := true
	must(t, Copy(t.Context(), writerFunc(func(p []byte) (int, error) {
		if got.Write(p); first {
			first = false
			write(t, w, numberedLines(10, 5000))
			must(t, w.Close())
			ended.Store(true)
		}
		return len(p), nil
	}), dir, id, Reading{Follow: true, Ended: ended.Load}))
	head, rest, ok := strings.Cut(got.String(), "[custody: ")
	number, tail, ok2 := strings.Cut(rest, " bytes were rotated away]\n")
	if !ok || !ok2 || head != numberedLines(0, 10) {
		t.Fatalf("%.300q", got.String())
	}
	expectInOrder(t, tail, 4999)
	if want := len(numberedLines(0, 5000)) - len(head) - len(tail); number != strconv.Itoa(want) {
		t.Errorf("%s bytes were rotated away, want %d", number, want)
	}
}

func TestFollowCancelled(t *testing.T) {
	dir, id := scope(t), proof.NewID()
	openLog(t, dir, id, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Copy(ctx, io.Discard, dir, id, Reading{Follow: true}) }()
	cancel()
	if err := <-done; !errors.Is(err, ctx.Err()) {
		t.Error(err)
	}
}

// What is no file of ours is neither written to nor read.
func TestHostileFiles(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("theirs"), 0o600))
	for what, put := range map[string]func(path string) error{
		"link outside": func(p string) error { return os.Symlink(outside, p) },
		"link inside": func(p string) error {
			must(t, os.WriteFile(p+"x", nil, 0o600))
			return os.Symlink(filepath.Base(p)+"x", p)
		},
		"link to none":   func(p string) error { return os.Symlink("none", p) },
		"hard link":      func(p string) error { return os.Link(outside, p) },
		"directory":      func(p string) error { return os.Mkdir(p, 0o700) },
		"open to others": func(p string) error { must(t, os.WriteFile(p, nil, 0o600)); return os.Chmod(p, 0o644) },
		"fifo":           func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			dir, id := scope(t), proof.NewID()
			must(t, os.Mkdir(filepath.Join(dir, "logs"), 0o700))
			must(t, put(Path(dir, id)))
			if w, err := Open(dir, id, Config{}); err == nil {
				w.Write([]byte("ours"))
				w.Close()
				t.Error("it was opened")
			} else {
				t.Log(err)
			}
			if err := Copy(t.Context(), io.Discard, dir, id, Reading{}); err == nil {
				t.Error("it was read")
			}
			if _, err := os.Lstat(filepath.Join(dir, "logs", "none")); err == nil {
				t.Error("the target of a link was made")
			}
			if b, _ := os.ReadFile(outside); string(b) != "theirs" {
				t.Errorf("outside: %q", b)
			}
		})
	}
	t.Run("linked directory", func(t *testing.T) {
		dir := scope(t)
		must(t, os.Symlink(t.TempDir(), filepath.Join(dir, "logs")))
		if w, err := Open(dir, proof.NewID(), Config{}); err == nil {
			w.Close()
			t.Error("opened through a link")
		}
	})
}

// What somebody puts in the way while the log is written is never written to.
func TestHostileRotation(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("theirs"), 0o600))
	dir, id := scope(t), proof.NewID()
	w := openLog(t, dir, id, Config{MaxBytes: 4 << 10, Files: 2})
	write(t, w, numberedLines(0, 10))
	must(t, os.Remove(Path(dir, id)))
	must(t, os.Symlink(outside, Path(dir, id)))
	must(t, os.Symlink(outside, Path(dir, id)+".new"))
	must(t, os.Link(outside, Path(dir, id)+".1"))
	write(t, w, numberedLines(10, 1000))
	if b, _ := os.ReadFile(outside); string(b) != "theirs" {
		t.Errorf("outside: %q", b)
	}
	if lost, cause := w.Lost(); lost > 0 {
		t.Errorf("lost %d: %v", lost, cause)
	}
	expectInOrder(t, read(t, dir, id, Reading{}), 999)
}

// A log whose files are fewer by now loses those that are too many.
func TestFewerFiles(t *testing.T) {
	dir, id := scope(t), proof.NewID()
	w := openLog(t, dir, id, Config{MaxBytes: 4 << 10, Files: 9})
	write(t, w, numberedLines(0, 5000))
	must(t, w.Close())
	openLog(t, dir, id, Config{MaxBytes: 4 << 10, Files: 3})
	files, _ := filepath.Glob(Path(dir, id) + "*")
	slices.Sort(files)
	if len(files) != 4 {
		t.Errorf("%v", files)
	}
}
