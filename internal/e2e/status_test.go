//go:build linux

// Exit status lost, and waits that hang.

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// ends are ways to end, and what is to be told of them.
var ends = []struct {
	args   []string
	code   int
	signal string
	shell  int
}{
	{[]string{"-code", "0"}, 0, "", 0},
	{[]string{"-code", "1"}, 1, "", 1},
	{[]string{"-code", "255"}, 255, "", 255},
	{[]string{"-signal", "KILL"}, -1, "KILL", 137},
	{[]string{"-signal", "TERM"}, -1, "TERM", 143},
	{[]string{"-signal", "SEGV"}, -1, "SEGV", 139},
}

// helper ends later than the leader, with a code of its own.
var helper = []string{"-helper-code", "9", "-helper-after", "300ms"}

// A signal-killed command is reported as 0; the last descendant's status
// replaces the leader's.
func TestC30_Status(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		c := r.owner()
		for _, standard := range []bool{false, true} {
			if standard && r.lv.kept {
				continue
			}
			for _, linger := range []bool{false, true} {
				for _, e := range ends {
					l := c.start(spec{Args: r.prog("exit", append(e.args, helper...)...), Linger: linger, StandardCmd: standard})
					a := l.ask(request{Do: "wait"})
					if a.Code != e.code || a.Signal != e.signal {
						t.Errorf("exit %v: code %d, signal %q (%s)", e.args, a.Code, a.Signal, a.Err)
					}
					if (a.Err == "") != (e.shell == 0) || a.Err != "" && !slices.Contains(a.Is, "exit") {
						t.Errorf("exit %v: error %q, is %v", e.args, a.Err, a.Is)
					}
				}
			}
		}
	})
}

// The same on the command line: 128+n for a signal, or the code.
func TestC30_CommandStatus(t *testing.T) {
	each(t, []level{lineage, cgroupKept}, func(t *testing.T, r *rig) {
		for _, e := range ends {
			for _, more := range [][]string{nil, helper} {
				args := append([]string{"run", "--phase", "TERM:1s", "--phase", "KILL:5s", "--"},
					r.prog("exit", append(slices.Clone(e.args), more...)...)...)
				if out, code := r.custody(args...); code != e.shell {
					t.Errorf("exit %v: %d, want %d: %s", e.args, code, e.shell, out)
				}
			}
		}
	})
}

// A grandchild holds the pipe and wait never returns; the standard remedy turns
// a good exit into an error.
func TestC39_PipeHolder(t *testing.T) {
	for _, out := range []string{"buffer", "pipe", "file"} {
		for _, code := range []int{7, 0} {
			t.Run(out+"/"+itoa(code), func(t *testing.T) {
				each(t, levels, func(t *testing.T, r *rig) {
					l := r.owner().start(spec{Out: out, Phases: []string{"TERM:3s", "KILL:5s"}, Args: r.prog("pipe-holder", "-code", itoa(code),
						"-setsid", "-ignore", "TERM,HUP", "-chatty", "100ms", "-after", "300ms")})
					w := r.watch(3)
					a := l.ask(request{Do: "wait"})
					if a.AfterEnd > 2*time.Second {
						t.Errorf("wait returned %v after the leader's end", a.AfterEnd)
					}
					if a.Code != code || (a.Err == "") != (code == 0) {
						t.Errorf("wait: code %d, error %q", a.Code, a.Err)
					}
					if out == "buffer" && (!a.Cut || !strings.Contains(a.Output, "leader ends")) {
						t.Errorf("cut %v, output %q", a.Cut, a.Output)
					}
					w.gone(time.Now(), 3*time.Second+5*time.Second)
					if got := l.ask(request{Do: "output"}).Output; !strings.Contains(got, "leader ends") {
						t.Errorf("output %q", got)
					}
				})
			})
		}
	}
}

// WaitDelay and its error stay what they are in os/exec.
func TestWaitDelay(t *testing.T) {
	each(t, levels, func(t *testing.T, r *rig) {
		c := r.owner()
		for code, want := range map[int]string{0: "wait-delay", 7: "exit"} {
			// The holder has to outlive the delay on a busy machine as well.
			l := c.start(spec{Out: "buffer", WaitDelay: 300 * time.Millisecond, Phases: []string{"TERM:5s", "KILL:5s"},
				Args: r.prog("pipe-holder", "-code", itoa(code), "-setsid", "-ignore", "TERM,HUP")})
			a := l.ask(request{Do: "wait"})
			if a.Code != code || !slices.Contains(a.Is, want) || !a.Cut {
				t.Errorf("code %d, error %q is %v, cut %v", a.Code, a.Err, a.Is, a.Cut)
			}
			if a.AfterEnd > 2*time.Second {
				t.Errorf("wait returned %v after the leader's end", a.AfterEnd)
			}
		}
	})
}
