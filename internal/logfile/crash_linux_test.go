package logfile

// The writer is killed at every step of a rotation: the next one goes on, and
// readers see all that is kept, once and in order.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/custody-project/custody/proof"
)

// crashingWriter writes lines, slowly enough for a reader to keep up.
func crashingWriter() {
	dir, id := roleArgs()
	var first, last, files int
	fmt.Sscan(os.Getenv("LOGFILE_LINES"), &first, &last, &files)
	w, err := Open(dir, id, Config{MaxBytes: 4 << 10, Files: files})
	if err != nil {
		panic(err)
	}
	for i := first; i < last; i++ {
		w.Write([]byte(numberedLines(i, i+1)))
		if fmt.Println(i); i%often(files) != 0 { // it is written
			continue
		}
		io.ReadFull(os.Stdin, make([]byte, 1)) // go on
	}
	w.Close()
}

// often is after how many lines the writer waits for the reader: where there
// is one file only a rotation takes away all that was not read.
func often(files int) int {
	if files == 1 {
		return 1
	}
	return 20
}

func TestCrashBetweenSteps(t *testing.T) {
	for _, step := range []string{"log-made", "log-counted", "log-dropped", "log-moved", "log-rotated"} {
		for _, files := range []int{1, 3} {
			if step == "log-moved" && files == 1 {
				continue // nothing moves
			}
			t.Run(fmt.Sprint(step, "/", files), func(t *testing.T) {
				t.Parallel()
				crashAt(t, step, files)
			})
		}
	}
}

func crashAt(t *testing.T, step string, files int) {
	dir, id := scope(t), proof.NewID()
	total := map[int]int{1: 500, 3: 1500}[files] // files enough to die in
	var ended atomic.Bool
	var seen atomic.Int64
	var got strings.Builder
	done := make(chan error, 1)
	w := openLog(t, dir, id, Config{MaxBytes: 4 << 10, Files: files})
	must(t, w.Close())
	go func() {
		done <- Copy(t.Context(), writerFunc(func(p []byte) (int, error) {
			defer seen.Add(int64(len(p)))
			return got.Write(p)
		}), dir, id, Reading{Follow: true, Ended: ended.Load})
	}()
	crashes := 0
	lineLen := int64(len(numberedLines(0, 1)))
	for next := 0; next < total; {
		// The first three die at the step, perhaps at the same line each.
		env := []string{fmt.Sprintf("LOGFILE_LINES=%d %d %d", next, total, files)}
		if crashes < 3 {
			env = append(env, "CUSTODY_TEST_CRASH="+step)
		}
		c := role(t, "writer", dir, id, env...)
		stdin, err := c.StdinPipe()
		must(t, err)
		stdout, err := c.StdoutPipe()
		must(t, err)
		must(t, c.Start())
		for {
			var i int
			if _, err := fmt.Fscan(stdout, &i); err != nil {
				break
			}
			if next = i + 1; i%often(files) == 0 {
				until(t, "the reader keeps up", func() bool { return seen.Load() >= int64(next)*lineLen })
				stdin.Write([]byte{0})
			}
		}
		err = c.Wait()
		var ee *exec.ExitError
		if errors.As(err, &ee) && ee.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
			crashes++
			// A log that nobody continues is readable as it is.
			if out := read(t, dir, id, Reading{}); out != "" {
				expectInOrder(t, out, next-1)
			}
		} else {
			must(t, err)
		}
		if size, _ := sizes(dir); size > int64(files)*4<<10 {
			t.Errorf("%d bytes", size)
		}
	}
	ended.Store(true)
	must(t, <-done)
	if crashes != 3 {
		t.Errorf("died %d times", crashes)
	}
	// Whoever died in a rotation died before it had written the line.
	if got.String() != numberedLines(0, total) {
		t.Errorf("the reader saw %d bytes of %d", got.Len(), len(numberedLines(0, total)))
		expectInOrder(t, got.String(), total-1)
	}
	expectInOrder(t, read(t, dir, id, Reading{}), total-1)
	if left, _ := filepath.Glob(Path(dir, id) + ".new"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
