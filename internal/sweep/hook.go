package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"unicode/utf8"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// The recorded stop hook: a command that ends what the launch has had another
// service begin. Such work is the service's child. It is no member, so it gets
// no signal; only who began it can say how it is ended.
//
// It runs once at most: inside the launch's stop lock, recorded as begun before
// it is forked. Whoever finds it begun knows that its runner died, and does not
// run it again.

// Fork forks a stop hook by calling start, and returns what to call when it was
// collected.
type Fork func(start func() (pid int, err error)) (done func(), err error)

// gentle reports whether the hook runs before the first phase. Who asks for
// nothing but KILL gets that first, and the hook when the tree is gone.
func gentle(opt Options) bool {
	select {
	case <-opt.Now:
		return false
	default:
	}
	return len(opt.Phases) == 0 || opt.Phases[0].Signal != syscall.SIGKILL
}

// judged reports whether a look can tell about the launch: of a foreign record
// no hook is run, and unsure authorises nothing.
func judged(tree *contain.Tree) bool {
	if h := tree.Rec.StopHook; h == nil || h.State != ledger.HookPending {
		return h != nil
	}
	s, err := tree.Look(true)
	if err != nil {
		return false
	}
	defer s.Close()
	return s.Verdict == proof.Owned || s.Verdict == proof.Gone
}

// runHook runs the launch's stop hook, unless it was run before, and puts what
// came of it into res. An error means that it could not be recorded as begun:
// it has not run, and the record must stay. The caller holds the launch's stop
// lock and has read the record inside it; when now is closed the hook is killed.
func runHook(d *ledger.Owner, rec *ledger.Record, res *Result, fork Fork, now <-chan struct{}) error {
	h := rec.StopHook
	if h == nil || res.Hook != nil {
		return nil
	}
	hook := *h
	switch hook.State {
	case ledger.HookBegun:
		hook.State, hook.Process = ledger.HookUnknown, nil
		hook.Reason = "who ran it died before its end could be written; it is not run again"
		setHook(d, rec.ID, hook)
		res.Hook = &hook
		return nil
	case ledger.HookPending:
	default:
		res.Hook = &hook
		return nil
	}
	won := false
	err := d.Update(rec.ID, func(r *ledger.Record) {
		if won = r.StopHook != nil && r.StopHook.State == ledger.HookPending; won {
			r.StopHook.State = ledger.HookBegun
		}
	})
	if errors.Is(err, fs.ErrNotExist) || err == nil && !won {
		hook.State, hook.Reason = ledger.HookUnknown, "its record is gone, which alone could tell whether it ran; it was not run now"
		res.Hook = &hook
		return nil
	}
	if err != nil {
		return fmt.Errorf("its stop hook can't be recorded as begun, and so was not run: %w", err)
	}
	crash.Here("hook-begun")
	hook.State = ledger.HookBegun
	hook = call(hook, hookEnv(rec), fork, now, func(id proof.Identity) {
		d.Update(rec.ID, func(r *ledger.Record) {
			if r.StopHook != nil {
				r.StopHook.Process = &id
			}
		})
		crash.Here("hook-forked")
	})
	crash.Here("hook-over")
	hook.Output, hook.Process = lastText(hook.Output), nil
	setHook(d, rec.ID, hook)
	res.Hook = &hook
	crash.Here("hook-recorded")
	return nil
}

// setHook writes down what came of the hook, as far as anything can be written.
// Its error changes nothing: the caller goes by what it knows.
func setHook(d *ledger.Owner, id proof.ID, h ledger.StopHook) {
	d.Update(id, func(r *ledger.Record) { r.StopHook = &h })
}

// hookVars are the variables that a hook gets from who runs it: enough to find
// programs, and the user's services.
var hookVars = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}

// hookEnv is the hook's environment. The cookie is not in it: with that it would
// look like a member.
func hookEnv(rec *ledger.Record) []string {
	var env []string
	for _, k := range hookVars {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	env = append(env, "CUSTODY_HOOK_LAUNCH="+rec.ID.String(), "CUSTODY_HOOK_SCOPE="+rec.Scope, "CUSTODY_HOOK_NAME="+rec.Name)
	exit := ""
	if rec.Exit != nil {
		if exit = rec.Exit.Signal; exit == "" {
			exit = strconv.Itoa(rec.Exit.Code)
		}
	}
	return append(env, "CUSTODY_HOOK_EXIT="+exit)
}

// hookTail is how many bytes of a hook's output are kept.
const hookTail = 2 << 10

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - hookTail; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

// lastText is output without the half of a character at its cut.
func lastText(s string) string {
	for i := 0; i < 4 && i < len(s); i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}
