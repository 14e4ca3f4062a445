package logfile

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/proof"
	"go.uber.org/goleak"
)

// The test binary is also the writer that is killed.
func TestMain(m *testing.M) {
	if role := os.Getenv("LOGFILE_TEST_ROLE"); role != "" {
		time.AfterFunc(time.Minute, func() { os.Exit(3) })
		roles[role]()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var roles = map[string]func(){"writer": crashingWriter, "limited": limitedWriter}

func role(t *testing.T, name, dir string, id proof.ID, env ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), "LOGFILE_TEST_ROLE="+name, "LOGFILE_DIR="+dir, "LOGFILE_ID="+id.String())
	c.Env = append(c.Env, env...)
	c.Stderr = os.Stderr
	return c
}

func roleArgs() (dir string, id proof.ID) {
	id, err := proof.ParseID(os.Getenv("LOGFILE_ID"))
	if err != nil {
		panic(err)
	}
	return os.Getenv("LOGFILE_DIR"), id
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scope is the directory of a scope.
func scope(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "scope")
	must(t, os.Mkdir(dir, 0o700))
	return dir
}

func openLog(t testing.TB, dir string, id proof.ID, cfg Config) *Writer {
	t.Helper()
	w, err := Open(dir, id, cfg)
	must(t, err)
	t.Cleanup(func() { w.Close() })
	return w
}

func write(t testing.TB, w *Writer, s string) {
	t.Helper()
	if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
}

func read(t testing.TB, dir string, id proof.ID, what Reading) string {
	t.Helper()
	var b bytes.Buffer
	must(t, Copy(t.Context(), &b, dir, id, what))
	return b.String()
}

// Path is where the newest file of a log lies.
func Path(dir string, id proof.ID) string { return filepath.Join(dir, "logs", base(id)) }

// sizes adds up the files of a log, by size and by blocks on the disk.
func sizes(dir string) (size, disk int64) {
	files, _ := filepath.Glob(filepath.Join(dir, "logs", "*"))
	for _, f := range files {
		var st syscall.Stat_t
		if syscall.Lstat(f, &st) == nil {
			size, disk = size+st.Size, disk+st.Blocks*512
		}
	}
	return size, disk
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func numberedLines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "line %08d of the output\n", i)
	}
	return b.String()
}

// expectInOrder expects numbered lines that begin anywhere and go on without a
// gap to the last.
func expectInOrder(t testing.TB, got string, last int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	first := -1
	for i, l := range lines {
		f := strings.Fields(l)
		if len(f) != 5 {
			t.Fatalf("line %d is %q", i, l)
		}
		n, _ := strconv.Atoi(f[1])
		if first < 0 {
			first = n
		}
		if n != first+i {
			t.Fatalf("line %d is %q, want number %d", i, l, first+i)
		}
	}
	if first+len(lines)-1 != last {
		t.Fatalf("ends at %d, want %d", first+len(lines)-1, last)
	}
}
