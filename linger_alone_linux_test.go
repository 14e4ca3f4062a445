package custody_test

// A launch that lingers and whose keeper was killed: nobody is left who would
// hear of its end, and yet its owner learns of it.

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/custody-project/custody"
)

func TestLingersWithoutKeeper(t *testing.T) {
	adopt(t)
	for what, tc := range map[string]struct{ adopted, stop bool }{
		"started, stopped by others": {false, true}, "adopted, stopped by others": {true, true},
		"started, ends by itself": {false, false}, "adopted, ends by itself": {true, false},
	} {
		t.Run(what, func(t *testing.T) {
			dir := stateDir(t)
			at := custody.ListOptions{Dir: dir}
			o := openOwner(t, custody.Options{Dir: dir})
			c := o.Command("sleep", map[bool]string{true: "60", false: "2"}[tc.stop])
			c.Kept, c.Linger, c.OnOwnerDeath, c.Name = true, true, custody.Survive, "n"
			must(t, c.Start())
			l := c.Launch()
			if tc.adopted {
				must(t, o.Close())
				o = openOwner(t, custody.Options{Dir: dir})
				var err error
				l, err = o.Adopt(t.Context(), "n")
				must(t, err)
			}
			st, err := custody.StatusOf(t.Context(), "n", at)
			must(t, err)
			keeper, err := os.FindProcess(st.KeeperPID)
			must(t, err)
			must(t, keeper.Kill())
			until(t, "the keeper's end is seen", func() bool {
				st, err := custody.StatusOf(t.Context(), "n", at)
				return err == nil && st.KeeperPID == 0
			})
			if tc.stop {
				_, err := custody.Stop(t.Context(), "n", custody.StopOptions{Dir: dir})
				must(t, err)
			}
			within(t, "Gone", func() { <-l.Gone() })
			until(t, "it is forgotten", func() bool { return len(o.Launches()) == 0 })
			next := o.Command("true")
			next.Name = "n"
			must(t, next.Start())
			next.Wait()
			must(t, o.Close())
			until(t, "orphans are collected", func() bool { return len(orphans(t)) == 0 })
		})
	}
}

// An owner without a helper can't make the states of os/exec, but it tells how
// what it adopted has ended.
func TestAdoptWithoutHelper(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	id, _ := hasEnded(t, o, dir, "n")
	must(t, o.Close())
	out, err := play(t, "helpless", order{Dir: dir, Name: id, Alone: true}).Output()
	if want := "it ended (exit status 7)"; err != nil || len(out) < len(want) || string(out[:len(want)]) != want {
		t.Errorf("%s, %v", out, err)
	}
}

func init() { roles["helpless"] = playHelpless }

func playHelpless(o order) {
	ctx := context.Background()
	ow, err := custody.Open(ctx, "test", &custody.Options{Dir: o.Dir, WithoutHelper: true})
	if err != nil {
		fatal(err)
	}
	l, err := ow.Adopt(ctx, o.Name)
	if err != nil {
		fatal(err)
	}
	_, err = l.Wait(ctx)
	fmt.Println(err)
	ow.Close()
}
