package custody_test

// I8 where launches live on: the owner that closed has nothing to do with them
// any more.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"go.uber.org/goleak"
)

func init() { roles["leaver"] = playLeaver }

// playLeaver starts launches that live on, takes them over, closes, and says
// what is left of it: goroutines, descriptors, children.
func playLeaver(o order) {
	ctx := context.Background()
	use := func(n int) {
		ow, err := custody.Open(ctx, "test", &custody.Options{Dir: o.Dir})
		if err != nil {
			fatal(err)
		}
		for i := range n {
			c := ow.Command("/bin/sleep", "60")
			c.Kept, c.OnOwnerDeath, c.Name = true, custody.Survive, fmt.Sprint("n", i)
			if i%2 == 1 {
				c.Log = &custody.LogSpec{}
			}
			if err := c.Start(); err != nil {
				fatal(err)
			}
		}
		if err := ow.Close(); err != nil {
			fatal(err)
		}
		if ow, err = custody.Open(ctx, "test", &custody.Options{Dir: o.Dir}); err != nil {
			fatal(err)
		}
		for i := range n {
			if _, err := ow.Adopt(ctx, fmt.Sprint("n", i)); err != nil {
				fatal(err)
			}
		}
		if err := ow.Close(); err != nil {
			fatal(err)
		}
	}
	use(0) // what the runtime opens once
	files, _ := os.ReadDir("/proc/self/fd")
	ignore := goleak.IgnoreCurrent()
	use(4)
	if err := goleak.Find(ignore); err != nil {
		fmt.Println("goroutines:", err)
	}
	if now, _ := os.ReadDir("/proc/self/fd"); len(now) != len(files) {
		fmt.Printf("descriptors: %d, were %d\n", len(now), len(files))
	}
	// They end while we live on: nobody may wait for us to collect them.
	for i := range 4 {
		if _, err := custody.Stop(ctx, fmt.Sprint("n", i), custody.StopOptions{Dir: o.Dir}); err != nil {
			fatal(err)
		}
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var left []string
		tasks, _ := filepath.Glob("/proc/self/task/*/children")
		for _, f := range tasks {
			b, _ := os.ReadFile(f)
			left = append(left, strings.Fields(string(b))...)
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			fmt.Println("children:", left)
			break
		}
	}
	fmt.Println("done")
}

func TestNothingIsLeftOfSurvivors(t *testing.T) {
	adopt(t)
	b, err := play(t, "leaver", order{Dir: stateDir(t)}).Output()
	if err != nil || string(b) != "done\n" {
		t.Errorf("%v: %s", err, b)
	}
	until(t, "orphans are collected", func() bool { return len(orphans(t)) == 0 })
}
