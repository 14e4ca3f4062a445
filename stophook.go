package custody

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/custody-project/custody/internal/ledger"
)

// The recorded stop hook, as the public story tells it. It is run by
// internal/sweep.

// StopHook is a launch's recorded stop hook, and what came of it.
type StopHook struct {
	Command []string `json:"command"`
	State   string   `json:"state"`            // pending, begun, done, failed, unknown
	Code    int      `json:"code,omitempty"`   // -1 if a signal ended it
	Signal  string   `json:"signal,omitempty"` // KILL, …
	Reason  string   `json:"reason,omitempty"` // why it failed, or can't be known
	Output  string   `json:"output,omitempty"` // the end of what it printed, 2 KiB at most
}

// States of a stop hook.
const (
	StopHookPending = string(ledger.HookPending) // not run yet
	StopHookBegun   = string(ledger.HookBegun)   // running, or who ran it died
	StopHookDone    = string(ledger.HookDone)    // ended with 0
	StopHookFailed  = string(ledger.HookFailed)  // could not be run, was killed, or ended otherwise
	StopHookUnknown = string(ledger.HookUnknown) // who ran it died before its end was written
)

// String returns one line for people: "failed: exit status 3".
func (h StopHook) String() string {
	if h.Reason != "" {
		return h.State + ": " + h.Reason
	}
	return h.State
}

func stopHook(h *ledger.StopHook) *StopHook {
	if h == nil {
		return nil
	}
	return &StopHook{Command: h.Command, State: string(h.State), Code: h.Code, Signal: h.Signal, Reason: h.Reason, Output: h.Output}
}

const (
	defaultHookTimeout = 10 * time.Second
	maxHook            = 16 << 10 // bytes of a hook's arguments
)

// planHook finds the hook's program now: whoever runs it later may have another
// PATH.
func planHook(command []string, timeout time.Duration) (*ledger.StopHook, error) {
	if len(command) == 0 {
		return nil, nil
	}
	path, err := exec.LookPath(command[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("stop hook: %v", err) // not the command's own error
	}
	if timeout == 0 {
		timeout = defaultHookTimeout
	}
	if timeout < 0 || timeout > 24*time.Hour {
		return nil, fmt.Errorf("stop hook: timeout of %v: want at most a day", timeout)
	}
	n := 0
	for _, a := range command {
		n += len(a) + 1
	}
	if n > maxHook {
		return nil, fmt.Errorf("stop hook: arguments of %d bytes: want at most %d", n, maxHook)
	}
	return &ledger.StopHook{Command: append([]string{path}, command[1:]...), Timeout: timeout, State: ledger.HookPending}, nil
}
