// Package foreground runs a launch as a shell runs a command: on the terminal,
// with Ctrl-C and Ctrl-Z as without custody, bound to whoever started us, and
// with the exit status mirrored. It is what 'custody run' is made of.
//
// It takes over the process: it catches signals, moves the terminal's
// foreground group, and ends the process by a signal where the command ended
// so. A program that is more than a wrapper does not want it.
package foreground

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/host"
)

// Options of Run.
type Options struct {
	// NoParent lets the command live on when our own parent dies. Otherwise
	// that stops it.
	NoParent bool
}

// relayed signals go to the command as they are; the others stop it.
var (
	stopping = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}
	relayed  = relay
)

// Watch subscribes to our signals. Call it before the owner is opened: a
// signal that arrives before anything is started must not end us half-way.
func Watch() <-chan os.Signal {
	c := make(chan os.Signal, 64)
	for _, s := range append(append([]os.Signal{}, stopping...), relayed...) {
		if !signal.Ignored(s) { // nohup, or a script's background job
			signal.Notify(c, s)
		}
	}
	return c
}

// Run starts cmd on the terminal, waits for it, and returns when its whole
// tree is gone. The error is Start's or Wait's, or one that matches
// custody.ErrIncomplete if something lives; cmd.ProcessState tells how the
// leader ended.
func Run(ctx context.Context, cmd *custody.Cmd, signals <-chan os.Signal, opt Options) error {
	r := &runner{cmd: cmd}
	parent, err := r.bind(opt)
	if err != nil {
		return err
	}
	cmd.Kept = true
	r.terminal()
	if err := cmd.Start(); err != nil {
		r.giveBack()
		return err
	}
	r.launch = cmd.Launch()
	done := make(chan struct{})
	var loop sync.WaitGroup
	loop.Go(func() { r.loop(signals, parent, done) })
	werr := cmd.Wait()
	_, serr := r.launch.Stop(ctx) // joins the stop of what the leader left
	close(done)
	loop.Wait()
	r.giveBack()
	if serr != nil {
		return serr
	}
	return werr
}

type runner struct {
	cmd    *custody.Cmd
	launch *custody.Launch
	tty    *host.Terminal
	given  bool // the terminal was handed to the command

	stops int
}

// bind watches our parent.
func (r *runner) bind(opt Options) (<-chan struct{}, error) {
	if opt.NoParent {
		return nil, nil
	}
	dead, err := parentDeath(context.Background())
	if errors.Is(err, ErrParentDied) {
		return nil, errors.New("our parent ended before the command was started; nothing was run (--no-parent runs without it)")
	}
	return dead, err
}

// terminal decides whether the command gets the terminal: if we have it, and
// are not the head of a pipeline, whose other end may want it.
func (r *runner) terminal() {
	tty, err := host.OpenTerminal()
	if err != nil {
		return
	}
	r.tty = tty
	r.cmd.Terminal = true
	if fg, err := tty.Foreground(); err == nil && fg == host.OurGroup() && !host.IsPipe(os.Stdout) {
		r.cmd.Front, r.given = true, true
	}
}

// hand gives the terminal to the command, if it is ours to give.
func (r *runner) hand() bool {
	if r.tty == nil {
		return false
	}
	if fg, err := r.tty.Foreground(); err != nil || fg != host.OurGroup() {
		return false
	}
	r.given = r.tty.SetForeground(r.launch.PID()) == nil
	return r.given
}

// giveBack takes the terminal back, unless somebody else has it by now.
func (r *runner) giveBack() {
	if r.tty == nil || !r.given {
		return
	}
	fg, err := r.tty.Foreground()
	if err == nil && (r.launch == nil || fg == r.launch.PID()) {
		r.tty.SetForeground(host.OurGroup())
	}
	r.given = false
}

// loop relays signals and job control until the tree is gone.
func (r *runner) loop(signals <-chan os.Signal, parent <-chan struct{}, done <-chan struct{}) {
	stopped := make(chan syscall.Signal, 16)
	r.launch.OnStopped(func(s syscall.Signal) {
		select {
		case stopped <- s:
		default:
		}
	})
	var retry <-chan time.Time
	for {
		select {
		case <-done:
			return
		case <-parent:
			parent = nil
			go r.launch.Stop(context.Background())
		case s := <-signals:
			r.signal(s.(syscall.Signal))
		case s := <-stopped:
			if !r.suspended(s) {
				retry = time.After(200 * time.Millisecond)
			}
		case <-retry:
			// The command waits in the background for the terminal. A shell
			// that brings us to the foreground need not tell us.
			if retry = nil; r.hand() {
				r.launch.SignalGroup(cont)
			} else {
				retry = time.After(200 * time.Millisecond)
			}
		}
	}
}

// signal acts on a signal that was sent to us.
func (r *runner) signal(s syscall.Signal) {
	for _, stop := range stopping {
		if s == stop {
			r.stop(s)
			return
		}
	}
	switch s {
	case tstp:
		r.launch.SignalGroup(s)
		r.suspend()
	case cont:
		// A hangup sends CONT along (setsid(2)); a stop continues by itself.
		if r.stops == 0 {
			r.resume()
		}
	default:
		r.launch.Signal(s)
	}
}

// stop begins the launch's plan with the signal we got in place of its first
// one; a second signal cuts the waiting short.
func (r *runner) stop(s syscall.Signal) {
	r.stops++
	left := false
	select {
	case <-r.launch.Exited():
		left = true // the plan runs already, for what the leader left
	default:
	}
	if r.stops > 1 || left {
		r.launch.Hurry()
		return
	}
	plan := r.cmd.Phases
	if plan == nil {
		plan = custody.DefaultPhases()
	}
	go r.launch.StopWith(context.Background(), from(plan, s))
}

// from is the plan that begins with the signal we got: where the plan has it,
// else in place of its first one. No signal is sent twice.
func from(plan []custody.Phase, s syscall.Signal) []custody.Phase {
	for i, p := range plan {
		if p.Signal == s {
			return plan[i:]
		}
	}
	return append([]custody.Phase{{Signal: s, Wait: plan[0].Wait}}, plan[1:]...)
}

// suspended acts on the command's having been stopped. It returns false if
// the command waits for the terminal and can't have it now.
func (r *runner) suspended(s syscall.Signal) bool {
	switch {
	case r.given:
		// It had the terminal: the shell wants it back, whatever stopped it.
		r.suspend()
	case s == ttin || s == ttou:
		if !r.hand() {
			return false
		}
		r.launch.SignalGroup(cont)
	}
	return true
}

// suspend stops us as the command was stopped, so that the shell sees its job
// stopped; it returns when we are continued.
func (r *runner) suspend() {
	r.giveBack()
	host.StopSelf()
	r.resume()
}

// resume continues the command, with the terminal if we have it.
func (r *runner) resume() {
	r.hand()
	r.launch.SignalGroup(cont)
}

// Mirror ends the process as the command ended: by the same signal where that
// is possible. Otherwise it returns the exit code: the command's own, or 128
// plus the signal's number.
func Mirror(state *os.ProcessState) int {
	ws, ok := state.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		custody.RaiseSelf(ws.Signal())
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
