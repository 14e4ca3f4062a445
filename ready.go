package custody

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/port"
)

// When is a launch ready? An answer on its port is no proof: it may come from
// a predecessor that is dying or from a stranger. So the listener is followed
// to the processes that hold it, and each of them must be proven to be of the
// tree.

// Ready is one thing to wait for. Exactly one field is set.
type Ready struct {
	// Port is a TCP port: ready when somebody listens on it, and every listener
	// is proven to be of the tree.
	Port int

	// URL is an http URL on this host: ready when a GET is answered with a
	// status of 200 to 299, by a listener that is proven to be of the tree
	// before and after. Redirects are not followed, proxies not used.
	URL string

	// Log matches a line of the launch's log: ready when one is written, or was
	// (needs Spec.Log). Its last line counts only once it is complete.
	Log *regexp.Regexp
}

// String returns the form that ParseReady reads.
func (r Ready) String() string {
	switch {
	case r.URL != "":
		return r.URL
	case r.Log != nil:
		return "log:" + r.Log.String()
	}
	return fmt.Sprintf("port:%d", r.Port)
}

// ParseReady reads port:N, log:REGEXP or an http URL. A space may stand for the
// colon, and "http URL" for the URL.
func ParseReady(s string) (Ready, error) {
	r := Ready{URL: strings.TrimPrefix(s, "http ")}
	kind, rest := s, ""
	if i := strings.IndexAny(s, ": "); i > 0 {
		kind, rest = s[:i], s[i+1:]
	}
	switch kind {
	case "port":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return r, fmt.Errorf("ready %.100q: want port:N, N from 1 to 65535", s)
		}
		r = Ready{Port: n}
	case "log":
		if rest == "" {
			return r, fmt.Errorf("ready %.100q: want log:REGEXP", s)
		}
		re, err := regexp.Compile(rest)
		if err != nil {
			return r, fmt.Errorf("ready %.100q: %w", s, err)
		}
		r = Ready{Log: re}
	}
	if _, err := r.prepare(); err != nil {
		return Ready{}, err
	}
	return r, nil
}

// question is a Ready that can be asked.
type question struct {
	what string
	port int
	url  *url.URL
	log  *regexp.Regexp
}

func (r Ready) prepare() (question, error) {
	q := question{what: r.String(), port: r.Port, log: r.Log}
	switch {
	case r.URL != "" && r.Port != 0 || r.Log != nil && (r.URL != "" || r.Port != 0):
		return q, errors.New("ready: more than one of port, URL and log; want one, and several to wait for all")
	case r.Log != nil:
	case r.URL != "":
		u, n, err := localURL(r.URL)
		if err != nil {
			return q, fmt.Errorf("ready %.100q: %w", r.URL, err)
		}
		q.url, q.port = u, n
	default:
		if err := port.Check(r.Port); err != nil {
			return q, fmt.Errorf("ready: %w", err)
		}
	}
	return q, nil
}

// ErrNotReady is matched by the error of WaitReady for a launch that will not
// become ready, or did not in time.
var ErrNotReady = errors.New("launch is not ready")

// NotReadyError says why a launch is not ready.
type NotReadyError struct {
	Launch  ID
	Waiting string           // for what: "port:8000", or a URL
	Reason  string           // why that is not so
	State   *os.ProcessState // the leader's end, if that is why
	PID     int              // of the stranger on the port, if that is why
	Command []string         // its arguments
	Log     []string         // the last lines of the launch's log, where it ended

	cause error
}

func (e *NotReadyError) Error() string {
	return fmt.Sprintf("launch %s is not ready (%s): %s", e.Launch.Short(), e.Waiting, e.Reason)
}

// Is matches ErrNotReady.
func (e *NotReadyError) Is(target error) bool { return target == ErrNotReady }

// Unwrap returns the context's error where time ran out, and the leader's as
// Wait gives it where that ended.
func (e *NotReadyError) Unwrap() error { return e.cause }

// WaitReady waits until the launch is ready: for each of what is given, in
// order. It fails at once when the leader ends (of a launch that lingers, when
// the tree is gone) and when a stranger listens on the port; while another
// recorded launch does, a predecessor perhaps, it waits. It stops nothing.
//
// The error is a *NotReadyError, which matches ErrNotReady and, where ctx ended
// the wait, the context's error.
func (l *Launch) WaitReady(ctx context.Context, ready ...Ready) error {
	s := subject{
		rec: l.rec, here: l.o.here, all: l.o.listing(""), logs: filepath.Dir(l.o.dir.Path()),
		record: l.record, ended: l.exited, gone: l.gone, closing: l.o.closing.Done(),
	}
	if l.spec.Linger {
		s.ended = l.gone
	}
	s.how = func(e *NotReadyError) {
		if l.state != nil {
			e.Reason, e.State = "its leader ended: "+l.state.String(), l.state
		}
		e.cause = l.waitErr
	}
	return s.waitReady(ctx, ready)
}

// subject is the launch that is waited for, as its owner has it or as it is
// seen from outside.
type subject struct {
	rec     *ledger.Record // as it was when the wait began
	here    host.Place
	all     ListOptions // of the launches that may be in the way
	logs    string      // the scope's directory
	record  func() (*ledger.Record, error)
	ended   <-chan struct{} // it can't become ready any more
	gone    <-chan struct{}
	how     func(*NotReadyError) // it ended
	closing <-chan struct{}
}

func (s *subject) waitReady(ctx context.Context, ready []Ready) error {
	var qs []question
	for _, r := range ready {
		q, err := r.prepare()
		if err != nil {
			return err
		}
		qs = append(qs, q)
	}
	for _, q := range qs {
		if q.log != nil && s.rec.Log == nil {
			return fmt.Errorf("ready %s: launch %s has no log", q.what, s.rec.ID.Short())
		}
		if err := s.wait(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (s *subject) wait(ctx context.Context, q question) error {
	w := &readiness{subject: s, q: q}
	var line chan struct{}
	if q.log != nil {
		watch, cancel := context.WithCancel(ctx)
		w.log = s.watchLog(watch, q.log)
		defer func() { cancel(); <-w.log.done }()
		line = w.log.done
	}
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		why := w.why
		ready := w.look(ctx)
		if over(ctx) && why != "" {
			w.why = why // and not that the last look was cut short
		}
		select {
		case <-s.ended: // whatever was seen on its port
			e := w.failed("it has ended")
			s.how(e)
			if e.Log = s.lastLines(ctx); len(e.Log) > 0 {
				e.Reason += fmt.Sprintf("; the last it said is %q", e.Log[len(e.Log)-1])
			}
			return e
		default:
		}
		switch {
		case ready:
			return nil
		case w.broken != nil:
			e := w.failed(fmt.Sprintf("its log can't be read: %v", w.broken))
			e.cause = w.broken
			return e
		case w.stranger != nil:
			e := w.failed(w.why)
			e.PID, e.Command = w.stranger.PID, w.stranger.Command
			return e
		}
		select {
		case <-s.ended:
		case <-line:
		case <-s.closing:
			e := w.failed("its owner closes")
			e.cause = ErrClosed
			return e
		case <-ctx.Done():
			e := w.failed(fmt.Sprintf("%s, and the wait is over: %v", w.why, ctx.Err()))
			e.cause = ctx.Err()
			return e
		case <-time.After(pause):
		}
	}
}

// over reports whether a context has ended, or does so just now: what goes by
// its deadline may be told before it.
func over(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(end)
}
