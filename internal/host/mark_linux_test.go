package host

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func sleeper(t *testing.T, script string) (*exec.Cmd, *Process) {
	t.Helper()
	c := exec.Command("sh", "-c", script)
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	p, err := Open(c.Process.Pid)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return c, p
}

// twoKids waits for the two children of a shell.
func twoKids(t *testing.T, p *Process) []int {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		kids, err := p.Children()
		must(t, err)
		if len(kids) == 2 {
			return kids
		}
		if time.Now().After(end) {
			t.Fatalf("children: %v", kids)
		}
	}
}

// What bears an inner launch's mark keeps it; what bears none, or the one that
// this process inherited from an outer launch, gets ours.
func TestMarkBelowLeavesInnerMarks(t *testing.T) {
	const outer, ours, inner = Brand(brandBit | 1), Brand(brandBit | 2), Brand(brandBit | 3)
	const two = "sleep 20 & sleep 20 & wait"
	check := func(p *Process) {
		t.Helper()
		kids := twoKids(t, p)
		for _, pid := range kids {
			q, err := Open(pid)
			must(t, err)
			t.Cleanup(func() {
				if q.Numbered() == nil {
					proc, _ := os.FindProcess(pid)
					proc.Kill()
				}
				q.Close()
			})
		}
		must(t, SetBrand(kids[0], inner))
		must(t, SetBrand(p.PID(), ours))
		MarkBelow(p, ours)
		if a, b := PeekBrand(kids[0]), PeekBrand(kids[1]); a != inner || b != ours {
			t.Errorf("marks: %x and %x, want %x and %x", a, b, inner, ours)
		}
	}
	_, p := sleeper(t, two)
	check(p)

	takeOff, err := WearBrand(outer)
	must(t, err)
	defer takeOff()
	_, p = sleeper(t, two)
	check(p)
}

// WearBrand gives back what was worn before.
func TestWearBrand(t *testing.T) {
	const outer, inner = Brand(brandBit | 1), Brand(brandBit | 2)
	before := PeekBrand(os.Getpid())
	first, err := WearBrand(outer)
	must(t, err)
	second, err := WearBrand(inner)
	must(t, err)
	second()
	if b := PeekBrand(os.Getpid()); b != outer {
		t.Errorf("mark %x, want %x", b, outer)
	}
	first()
	if b := PeekBrand(os.Getpid()); b != before {
		t.Errorf("mark %x, want %x", b, before)
	}
}

// A number that changed hands before the mark leaves its new holder as it was.
func TestMarkLeavesNewcomer(t *testing.T) {
	dead, p := sleeper(t, "exit 0")
	dead.Wait()
	c, _ := sleeper(t, "exec sleep 20")
	const own = Brand(brandBit | 7)
	for _, was := range []Brand{0, own} {
		if was != 0 {
			must(t, SetBrand(c.Process.Pid, was))
		}
		fd := -1
		must(t, p.Use(func(n int) error { fd = n; return nil }))
		taken := &Process{pid: c.Process.Pid, fd: fd} // the dead one's handle
		if err := Mark(taken, Brand(brandBit|8)); err == nil {
			t.Error("marked")
		}
		if b := PeekBrand(c.Process.Pid); b != was {
			t.Errorf("the newcomer's mark: %x, want %x", b, was)
		}
	}
}
