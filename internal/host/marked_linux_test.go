package host

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
)

// Marked finds by brand, by cookie and by both, in any order of questions, and
// only who started late enough.
func TestMarked(t *testing.T) {
	start := func(env ...string) int {
		c := exec.Command("sleep", "60")
		c.Env = append(os.Environ(), env...)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		return c.Process.Pid
	}
	const cookie = "CUSTODY_LAUNCH"
	mine, other := Brand(brandBit|4711), Brand(brandBit|4712)
	both, env, brand, none := start(cookie+"=x"), start(cookie+"=x"), start(), start(cookie+"=y")
	for pid, b := range map[int]Brand{both: mine, brand: mine, none: other} {
		if err := SetBrand(pid, b); err != nil {
			t.Fatal(err)
		}
	}
	table, err := ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	first := table.Rows[both].Start
	last := first
	for _, pid := range []int{env, brand, none} {
		last = max(last, table.Rows[pid].Start)
	}
	if got := table.Marked(cookie, "x", mine, last+1); len(got) > 0 {
		t.Errorf("started after tick %d: %v, want none", last, got)
	}
	want := []int{both, env, brand}
	slices.Sort(want)
	for range 2 {
		got := table.Marked(cookie, "x", mine, first)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("marked: %v, want %v", got, want)
		}
	}
	if got := table.Marked(cookie, "y", 0, first); !slices.Equal(got, []int{none}) {
		t.Errorf("by cookie alone: %v, want %d", got, none)
	}
}
