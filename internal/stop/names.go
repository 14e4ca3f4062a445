package stop

import (
	"fmt"
	"strings"
	"syscall"
	"time"
)

// ParseSignal reads a signal's name, with or without SIG, in any case.
// Numbers are refused: they differ between systems.
func ParseSignal(s string) (syscall.Signal, error) {
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if sig, ok := signals[name]; ok {
		return sig, nil
	}
	if sig, ok := systemSignal(name); ok {
		return sig, nil
	}
	return 0, fmt.Errorf("signal %.40q: unknown; use a name such as TERM, INT, HUP, QUIT or KILL", s)
}

// SignalName returns the name without SIG.
func SignalName(sig syscall.Signal) string {
	for name, s := range signals {
		if s == sig {
			return name
		}
	}
	if name, ok := systemSignalName(sig); ok {
		return name
	}
	return fmt.Sprintf("%d", int(sig))
}

// ParsePhase reads SIGNAL:DURATION, as in TERM:10s.
func ParsePhase(s string) (Phase, error) {
	name, wait, ok := strings.Cut(s, ":")
	if !ok {
		return Phase{}, fmt.Errorf("phase %.60q: want SIGNAL:DURATION, as in TERM:10s", s)
	}
	sig, err := ParseSignal(name)
	if err != nil {
		return Phase{}, fmt.Errorf("phase %.60q: %w", s, err)
	}
	d, err := time.ParseDuration(wait)
	if err != nil || d < 0 || d > 24*time.Hour {
		return Phase{}, fmt.Errorf("phase %.60q: want a duration from 0 to 24h, as in TERM:10s", s)
	}
	return Phase{Signal: sig, Wait: d}, nil
}
