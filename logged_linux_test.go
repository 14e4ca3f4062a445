package custody_test

// What a launch prints, and what becomes of it when its keeper is killed or the
// disk is full: the command never waits, and never dies of it.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"golang.org/x/sys/unix"
)

// printer prints numbered lines until it is stopped, and ends with 9 when one
// can't be written.
const printer = `exec 2>/dev/null; trap 'exit 0' TERM; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i || exit 9; sleep 0.01; done`

func survivor(o *custody.Owner, log *custody.LogSpec, name string, args ...string) *custody.Cmd {
	c := o.Command(name, args...)
	c.Kept, c.OnOwnerDeath, c.Log = true, custody.Survive, log
	return c
}

func status(t *testing.T, dir, id string) custody.Status {
	t.Helper()
	st, err := custody.StatusOf(t.Context(), id, custody.ListOptions{Dir: dir})
	must(t, err)
	return st
}

// lines reads a log that was not rotated, and fails unless its lines are
// counted without a gap.
func lines(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	n := 0
	for line := range strings.Lines(string(b)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if n++; line != fmt.Sprintf("line %d\n", n) {
			t.Fatalf("line %d of the log is %q", n, line)
		}
	}
	return n
}

func TestKeeperKilledLogGoesOn(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	c := survivor(o, &custody.LogSpec{}, "/bin/sh", "-c", printer)
	must(t, c.Start())
	id := c.Launch().ID().String()
	must(t, o.Close())
	st := status(t, dir, id)
	until(t, "the log has its first lines", func() bool { return lines(t, st.Log.Path) > 5 })
	keeper, err := os.FindProcess(st.KeeperPID)
	must(t, err)
	must(t, keeper.Kill())
	until(t, "the keeper is dead", func() bool { return status(t, dir, id).ExitLost })
	before := lines(t, st.Log.Path)
	until(t, "the log goes on", func() bool { return lines(t, st.Log.Path) > before+50 })
	if st := status(t, dir, id); st.State != custody.StateRunning || st.LeaderGone {
		t.Errorf("%+v", st)
	}
	_, err = custody.Stop(t.Context(), id, custody.StopOptions{Dir: dir})
	must(t, err)
	// The spare ends with the output; its log must be whole before the
	// directory goes.
	until(t, "the spare has ended", func() bool { return len(running("custody-spare of "+id[:8]+" ")) == 0 })
	lines(t, st.Log.Path)
}

func TestLogOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounts a small file system: needs root")
	}
	dir := stateDir(t)
	must(t, unix.Mount("none", dir, "tmpfs", 0, "size=512k,mode=0700"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	o := openOwner(t, custody.Options{Dir: dir})
	// It ends by itself if a write fails or does not return.
	c := survivor(o, &custody.LogSpec{}, "/bin/sh", "-c",
		`trap 'exit 0' TERM; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); printf '%01000d\n' $i || exit 9; done; echo done >"$0"; sleep 60 & wait`, filepath.Join(t.TempDir(), "done"))
	must(t, c.Start())
	l := c.Launch()
	until(t, "everything is printed", func() bool { _, err := os.Stat(c.Args[3]); return err == nil })
	until(t, "the loss is told", func() bool { return status(t, dir, l.ID().String()).Log.Lost > 1<<20 })
	if st := status(t, dir, l.ID().String()); st.State != custody.StateRunning || st.LeaderGone {
		t.Errorf("%+v", st)
	}
	_, err := l.Stop(t.Context())
	must(t, err)
	if _, err := l.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLogIsBounded(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	c := survivor(o, &custody.LogSpec{MaxBytes: 1 << 20, Files: 3}, "/bin/sh", "-c", `head -c 200000000 /dev/zero | tr '\0' 'x' | fold -w 99; echo the end`)
	must(t, c.Start())
	size := func() (sum int64) {
		files, _ := filepath.Glob(filepath.Join(dir, "test", "logs", "*"))
		for _, f := range files {
			if fi, err := os.Stat(f); err == nil {
				sum += fi.Size()
			}
		}
		return sum
	}
	path := status(t, dir, c.Launch().ID().String()).Log.Path
	for done := false; !done; {
		select {
		case <-c.Launch().Gone():
			done = true
		default:
		}
		if n := size(); n > 3<<20 {
			t.Fatalf("%d bytes of logs", n)
		}
		time.Sleep(time.Millisecond) // leave it the processor
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	until(t, "the last line is there", func() bool {
		b, err := os.ReadFile(path)
		return err == nil && strings.HasSuffix(string(b), "the end\n")
	})
}

func TestLogNeedsAKeeper(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	c := o.Command("true")
	c.Log = &custody.LogSpec{}
	if err := c.Start(); err == nil || !strings.Contains(err.Error(), "needs Kept") {
		t.Error(err)
	}
}
