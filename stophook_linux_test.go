package custody_test

// The stop hook where a keeper runs it: as the keeper's own child, below which
// else everything is of the launch.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

func TestStopHookBelowAKeeper(t *testing.T) {
	for _, leader := range []string{"exit", "killed"} {
		t.Run(leader, func(t *testing.T) {
			dir := stateDir(t)
			ow, err := custody.Open(t.Context(), "test", &custody.Options{Dir: dir})
			must(t, err)
			defer ow.Close()
			out, goOn := filepath.Join(dir, "out"), filepath.Join(dir, "go-on")
			c := ow.Command("/bin/sh", "-c", "read x; exit 3")
			in, err := c.StdinPipe()
			must(t, err)
			c.Kept = true
			c.StopHook = []string{"sh", "-c", fmt.Sprintf(
				`{ grep -i 'realtime timeout' /proc/self/limits; env; echo pid $$; } >%s.new; mv %s.new %s; until test -e %s; do sleep 0.05; done; (exit 9) & exit 5`, out, out, out, goOn)}
			c.StopHookTimeout = time.Minute
			must(t, c.Start())
			if leader == "exit" {
				in.Close()
			} else {
				must(t, c.Process.Kill())
			}
			until(t, "the hook runs", func() bool { _, err := os.Stat(out); return err == nil })
			b, err := os.ReadFile(out)
			must(t, err)
			if !strings.Contains(string(b), "unlimited") || strings.Contains(string(b), "CUSTODY_LAUNCH=") {
				t.Errorf("the hook bears the marks of the launch: %s", b)
			}
			var pid int
			fmt.Sscan(string(b[strings.LastIndex(string(b), "pid ")+4:]), &pid)
			st, err := custody.StatusOf(t.Context(), c.Launch().ID().String(), custody.ListOptions{Dir: dir})
			must(t, err)
			if len(st.PIDs) != 0 || st.StopHook == nil || st.StopHook.State != custody.StopHookBegun {
				t.Errorf("while the hook %d runs: members %v, hook %+v", pid, st.PIDs, st.StopHook)
			}
			ex, err := custody.Explain(t.Context(), fmt.Sprint(pid), custody.ListOptions{Dir: dir})
			if err != nil || ex[0].WouldSignal {
				t.Errorf("the hook is taken for a member: %+v, %v", ex, err)
			}
			must(t, os.WriteFile(goOn, nil, 0o600))
			err = c.Wait()
			code := c.ProcessState.ExitCode()
			if leader == "exit" && code != 3 || leader == "killed" && code != -1 {
				t.Errorf("the leader: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			select {
			case <-c.Launch().Gone():
			case <-ctx.Done():
				t.Fatal("never gone")
			}
			res, _ := c.Launch().Result()
			if h := res.StopHook; h == nil || h.State != custody.StopHookFailed || h.Code != 5 || h.Reason != "exit status 5" {
				t.Errorf("hook: %+v", h)
			}
		})
	}
}

// The keeper collects every child of its own; its hook's end is left to who
// waits for it, however late that is.
func TestStopHookStatusIsNotStolen(t *testing.T) {
	t.Setenv("CUSTODY_TEST_PAUSE", "keeper/hook-forked=700ms")
	dir := stateDir(t)
	ow, err := custody.Open(t.Context(), "test", &custody.Options{Dir: dir})
	must(t, err)
	defer ow.Close()
	c := ow.Command("true")
	c.Kept = true
	c.StopHook = []string{"sh", "-c", "exit 6"}
	must(t, c.Run())
	select {
	case <-c.Launch().Gone():
	case <-time.After(30 * time.Second):
		t.Fatal("never gone")
	}
	if res, _ := c.Launch().Result(); res.StopHook == nil || res.StopHook.Code != 6 {
		t.Errorf("%+v", res.StopHook)
	}
}

// A hook that can't be found refuses the start.
func TestStopHookMissing(t *testing.T) {
	ow, err := custody.Open(t.Context(), "test", &custody.Options{Dir: stateDir(t)})
	must(t, err)
	defer ow.Close()
	for _, hook := range [][]string{{"no-such-hook"}, {"/nowhere/hook"}, {"sh", strings.Repeat("x", 17<<10)}} {
		c := ow.Command("true")
		c.StopHook = hook
		if err := c.Start(); err == nil || !strings.Contains(err.Error(), "stop hook") {
			t.Errorf("%.20q: %v", hook, err)
		}
	}
	if ls := ow.Launches(); len(ls) > 0 {
		t.Errorf("recorded: %v", ls)
	}
}
