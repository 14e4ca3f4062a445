package sweep

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// hookPipes is how long the output of a hook that has ended is waited for, if
// something it left behind holds it open.
const hookPipes = 500 * time.Millisecond

// call runs the hook's command in a session of its own, with / as directory and
// no input, and returns the hook with what came of it. At its timeout, or when
// now is closed, the hook and its process group are killed, through the handle
// that its clone gave.
func call(h ledger.StopHook, env []string, fork Fork, now <-chan struct{}, begun func(proof.Identity)) ledger.StopHook {
	out, pidfd := new(tail), -1
	c := &exec.Cmd{Path: h.Command[0], Args: h.Command, Env: env, Dir: "/", Stdout: out, Stderr: out, WaitDelay: hookPipes,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}}
	if fork == nil {
		fork = func(start func() (int, error)) (func(), error) { _, err := start(); return func() {}, err }
	}
	collected, err := fork(func() (int, error) {
		if err := c.Start(); err != nil {
			return 0, err
		}
		return c.Process.Pid, nil
	})
	if err != nil {
		h.State, h.Reason = ledger.HookFailed, fmt.Sprintf("it can't be run: %v", err)
		return h
	}
	defer collected()
	p, err := hookProcess(pidfd, c.Process.Pid)
	if err == nil {
		defer p.Close()
		if id, err := p.Identity(); err == nil {
			begun(id)
		}
	}
	held := err == nil
	ended, killed := make(chan struct{}), make(chan string, 1)
	go func() {
		why := ""
		select {
		case <-ended:
		case <-time.After(h.Timeout):
			why = fmt.Sprintf("it ran for longer than %v, and was killed", h.Timeout)
		case <-now:
			why = "it was cut short and killed"
		}
		if why != "" && held {
			stop.EndChild(p)
		}
		killed <- why
	}()
	err = c.Wait()
	close(ended)
	return outcome(h, c, out, <-killed, err)
}

// hookProcess is the handle of the hook, our uncollected child.
func hookProcess(pidfd, pid int) (*host.Process, error) {
	if pidfd < 0 { // before Linux 5.3
		return host.Open(pid)
	}
	return host.FromFD(pidfd, pid), nil
}

func outcome(h ledger.StopHook, c *exec.Cmd, out *tail, killed string, err error) ledger.StopHook {
	h.Output = string(out.b)
	ws, ok := syscall.WaitStatus(0), false
	if c.ProcessState != nil {
		ws, ok = c.ProcessState.Sys().(syscall.WaitStatus)
	}
	if !ok {
		h.State, h.Reason = ledger.HookUnknown, fmt.Sprintf("how it ended was not told: %v", err)
		return h
	}
	x := ExitOf(uint32(ws))
	h.Code, h.Signal = x.Code, x.Signal
	switch {
	case killed != "" && x.Signal != "":
		h.State, h.Reason = ledger.HookFailed, killed
	case x.Signal != "":
		h.State, h.Reason = ledger.HookFailed, "it was ended by "+x.Signal
	case x.Code != 0:
		h.State, h.Reason = ledger.HookFailed, fmt.Sprintf("exit status %d", x.Code)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		h.State, h.Reason = ledger.HookFailed, err.Error()
	default:
		h.State = ledger.HookDone
	}
	return h
}
