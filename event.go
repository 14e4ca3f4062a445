package custody

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// EventKind says what happened.
type EventKind string

const (
	LaunchStarted    EventKind = "started"
	LaunchAdopted    EventKind = "adopted"
	LeaderExited     EventKind = "leader-exited"
	SignalSent       EventKind = "signal"
	SignalRefused    EventKind = "refused"
	LaunchGone       EventKind = "gone"
	LaunchIncomplete EventKind = "incomplete"
	HookFailed       EventKind = "hook-failed"
	KeeperDied       EventKind = "keeper-died"
	WatchdogReplaced EventKind = "watchdog-replaced"
	WatchdogFailed   EventKind = "watchdog-failed"
	Environment      EventKind = "environment" // Err is an EnvironmentError
)

// Event is one thing that happened to a launch or its owner. Every signal and
// every refusal carries the evidence it rests on.
type Event struct {
	Time   time.Time
	Kind   EventKind
	Launch ID
	Name   string
	PID    int
	Signal string
	Via    string // how a signal was sent: handle, group
	Proof  Finding
	Err    error
}

// String returns one line for people.
func (e Event) String() string {
	s := string(e.Kind)
	if !e.Launch.IsZero() {
		s += " launch=" + e.Launch.Short()
	}
	if e.Name != "" {
		s += " name=" + e.Name
	}
	if e.PID != 0 {
		s += fmt.Sprintf(" pid=%d", e.PID)
	}
	if e.Signal != "" {
		s += " signal=" + e.Signal + " via=" + e.Via
	}
	if e.Proof.Reason != "" {
		s += fmt.Sprintf(" verdict=%s (%s)", e.Proof.Verdict, e.Proof.Reason)
	}
	if e.Err != nil {
		s += " error=" + e.Err.Error()
	}
	return s
}

// LogValue implements slog.LogValuer.
func (e Event) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", string(e.Kind))}
	if !e.Launch.IsZero() {
		attrs = append(attrs, slog.String("launch", e.Launch.String()))
	}
	if e.Name != "" {
		attrs = append(attrs, slog.String("name", e.Name))
	}
	if e.PID != 0 {
		attrs = append(attrs, slog.Int("pid", e.PID))
	}
	if e.Signal != "" {
		attrs = append(attrs, slog.String("signal", e.Signal), slog.String("verdict", e.Proof.Verdict.String()))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

func (o *Owner) event(e Event) {
	if o.opt.OnEvent != nil {
		e.Time = time.Now()
		o.opt.OnEvent(e)
	}
}

func (o *Owner) sweepEvent(id proof.ID, s stop.Sent) { o.event(sentEvent(id, "", s)) }

func sentEvent(id proof.ID, name string, s stop.Sent) Event {
	e := Event{Kind: SignalSent, Launch: id, Name: name, PID: s.PID, Signal: stop.SignalName(s.Signal),
		Via: s.Via, Proof: finding(s.Finding), Err: s.Err}
	if s.Err != nil {
		e.Kind = SignalRefused
	}
	return e
}
