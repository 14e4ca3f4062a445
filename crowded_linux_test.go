package custody_test

// A table of descriptors that is full in the worst moment: a start that can't
// be written down ends, and a launch that runs goes on.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"golang.org/x/sys/unix"
)

func init() { roles["crowded"] = playCrowded }

// playCrowded can open no descriptor from a moment after the start reached the
// step, at which it pauses, until the launch was looked at. It prints what
// became of it.
func playCrowded(o order) {
	ow, err := custody.Open(context.Background(), "test", &custody.Options{Dir: o.Dir})
	if err != nil {
		fatal(err)
	}
	c := ow.Command(o.Command[0], o.Command[1:]...)
	var lim unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &lim)
	few := lim
	few.Cur = 3
	over := make(chan struct{})
	go func() {
		defer close(over)
		for end := time.Now().Add(20 * time.Second); !reached(o) && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
		unix.Setrlimit(unix.RLIMIT_NOFILE, &few)
	}()
	err = c.Start()
	time.Sleep(500 * time.Millisecond)
	state := "none"
	if err == nil {
		select {
		case <-c.Launch().Exited():
			state = "exited"
		default:
			state = "runs"
		}
	}
	<-over
	unix.Setrlimit(unix.RLIMIT_NOFILE, &lim)
	fmt.Println("start:", err)
	fmt.Println("launch:", state)
	fmt.Println("children:", len(running(strings.Join(o.Command, " ")+" ")))
	if err == nil {
		p, _ := os.FindProcess(c.Process.Pid)
		p.Kill()
		select {
		case <-c.Launch().Gone():
			fmt.Println("its end was noticed")
		case <-time.After(20 * time.Second):
		}
	}
	fmt.Println("close:", ow.Close())
}

// reached looks from outside whether the command runs, or is recorded to.
func reached(o order) bool {
	if o.Name == "after-fork" {
		return len(running(strings.Join(o.Command, " ")+" ")) > 0
	}
	recs, _ := filepath.Glob(filepath.Join(o.Dir, "test", "*", "*.json"))
	return slices.ContainsFunc(recs, func(r string) bool {
		b, _ := os.ReadFile(r)
		return strings.Contains(string(b), `"state": "running"`)
	})
}

func TestNoDescriptorIsLeft(t *testing.T) {
	for step, want := range map[string][]string{
		"after-fork":   {"launch: none", "children: 0", "close: <nil>"},
		"after-record": {"start: <nil>", "launch: runs", "children: 1", "its end was noticed", "close: <nil>"},
	} {
		t.Run(step, func(t *testing.T) {
			dir := stateDir(t)
			mark := fmt.Sprintf("60.%d", os.Getpid())
			c := play(t, "crowded", order{Dir: dir, Name: step, Command: []string{"/bin/sleep", mark}}, "CUSTODY_TEST_PAUSE=owner/"+step+"=2s")
			b, err := c.Output()
			if err != nil {
				t.Errorf("%v", err)
			}
			got := strings.Split(string(b), "\n")
			for _, w := range want {
				if !slices.Contains(got, w) {
					t.Errorf("no %q in:\n%s", w, b)
				}
			}
			if left := running("/bin/sleep " + mark + " "); len(left) > 0 {
				t.Errorf("left running: %v", left)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "test", "*", "*.json")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
