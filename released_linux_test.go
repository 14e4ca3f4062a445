package custody_test

// A launch that was released, and what its owner still owes it: to let go of
// it at Close, and to end it if it was taken back.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

func init() { roles["releaser"] = playReleaser }

func TestReleasedThenClosed(t *testing.T) {
	for _, back := range []bool{false, true} {
		bothKinds(t, func(t *testing.T, kept bool) {
			dir := stateDir(t)
			mark := fmt.Sprintf("61.%d", os.Getpid())
			o := openOwner(t, custody.Options{Dir: dir})
			c := o.Command("sleep", mark)
			c.Kept = kept
			must(t, c.Start())
			must(t, c.Launch().Release(t.Context()))
			if n := len(o.Launches()); n != 0 {
				t.Errorf("%d launches", n)
			}
			id := c.Launch().ID().String()
			if back {
				_, err := custody.Adopt(t.Context(), id, custody.AdoptOptions{Dir: dir})
				must(t, err)
				if n := len(o.Launches()); n != 1 {
					t.Errorf("%d launches after it was taken back", n)
				}
			}
			within(t, "Close", func() {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
			})
			if n := len(running("sleep " + mark + " ")); back && n != 0 || !back && n != 1 {
				t.Errorf("taken back %v: %d are running", back, n)
			}
			if !back {
				_, err := custody.Adopt(t.Context(), id, custody.AdoptOptions{Dir: dir})
				must(t, err)
				_, err = custody.Stop(t.Context(), id, custody.StopOptions{Dir: dir})
				must(t, err)
			}
			if !kept {
				var ws syscall.WaitStatus
				syscall.Wait4(c.Process.Pid, &ws, 0, nil)
			}
		})
	}
}

// playReleaser releases a kept launch, lets its leader end, takes it back if
// told to, and dies.
func playReleaser(o order) {
	ctx := context.Background()
	ow, err := custody.Open(ctx, "test", &custody.Options{Dir: o.Dir})
	if err != nil {
		fatal(err)
	}
	c := ow.Command("/bin/sh", "-c", "/bin/sleep "+o.Name+" & exec /bin/sleep 0.5")
	c.Kept = true
	if err = c.Start(); err == nil {
		err = c.Launch().Release(ctx)
	}
	if err != nil {
		fatal(err)
	}
	<-c.Launch().Exited()
	time.Sleep(300 * time.Millisecond) // the keeper takes note
	if o.Survive {
		if _, err := custody.Adopt(ctx, c.Launch().ID().String(), custody.AdoptOptions{Dir: o.Dir}); err != nil {
			fatal(err)
		}
	}
	fmt.Println(c.Launch().ID())
	suicide()
}

func TestKeeperOfAReleasedLaunch(t *testing.T) {
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprint("taken back ", back), func(t *testing.T) {
			dir := stateDir(t)
			mark := fmt.Sprintf("62.%d", os.Getpid())
			left := func() int { return len(running("/bin/sleep " + mark + " ")) }
			b, err := play(t, "releaser", order{Dir: dir, Name: mark, Survive: back}).Output()
			expectKilled(t, "owner", err)
			id := strings.TrimSpace(string(b))
			if back {
				until(t, "the keeper ended it", func() bool { return left() == 0 })
				until(t, "its record is gone", func() bool {
					recs, _ := filepath.Glob(filepath.Join(dir, "test", "*", id+".json"))
					return len(recs) == 0
				})
				return
			}
			time.Sleep(500 * time.Millisecond)
			if left() != 1 {
				t.Error("a released launch was ended with its leader")
			}
			_, err = custody.Adopt(t.Context(), id, custody.AdoptOptions{Dir: dir})
			must(t, err)
			_, err = custody.Stop(t.Context(), id, custody.StopOptions{Dir: dir})
			must(t, err)
		})
	}
}
