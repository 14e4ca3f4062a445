package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"
)

// A stop looks many times a second, and an engine may take half a second to
// say who it is. So its id is asked once for each connection, and that is
// believed as long as what is found agrees with it: a container with the
// recorded id can be at the recorded engine only. Before anything is said to be
// gone, or another's, it is asked anew, since a proxy may have put another
// engine behind the same connection. Looks at one engine take turns, and the
// connection is closed when nobody has looked for a moment.

// idle is how long a connection is kept for the next look.
const idle = 700 * time.Millisecond

// session is what is kept of one engine between looks.
type session struct {
	cli    *client.Client
	turn   chan struct{} // holds one token: who has it may ask
	dials  atomic.Int64  // connections made so far
	podman atomic.Bool   // what answered last is Podman

	id      string // of the engine, as told on connection number idOn
	idOn    int64
	closing *time.Timer
}

var sessions = struct {
	sync.Mutex
	to map[string]*session
}{to: map[string]*session{}}

// connect makes a client for an endpoint. The caller closes it.
func connect(endpoint string, more ...client.Opt) (*client.Client, error) {
	path, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok || !filepath.IsAbs(path) {
		return nil, fmt.Errorf("endpoint %.80q: want unix:///PATH: custody owns containers of this machine only", endpoint)
	}
	return client.New(append([]client.Opt{client.WithHost(endpoint), client.WithUserAgent("custody")}, more...)...)
}

// sessionTo returns the session of an endpoint, with its turn taken. The caller
// calls done.
func sessionTo(ctx context.Context, endpoint string) (*session, error) {
	sessions.Lock()
	s := sessions.to[endpoint]
	if s == nil {
		s = &session{turn: make(chan struct{}, 1)}
		var err error
		s.cli, err = connect(endpoint,
			client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(endpoint, "unix://"))
				s.dials.Add(1)
				return c, err
			}),
			client.WithHTTPResponseHook(func(r *http.Response) {
				s.podman.Store(strings.HasPrefix(r.Header.Get("Server"), "Libpod/"))
			}))
		if err != nil {
			sessions.Unlock()
			return nil, err
		}
		s.closing = time.AfterFunc(time.Hour, func() { s.close(endpoint) })
		sessions.to[endpoint] = s
	}
	sessions.Unlock()
	select {
	case s.turn <- struct{}{}:
		s.closing.Stop()
		return s, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the engine at %s does not answer: %w", endpoint, ctx.Err())
	}
}

// done ends a turn.
func (s *session) done() {
	s.closing.Reset(idle)
	<-s.turn
}

func (s *session) close(endpoint string) {
	select {
	case s.turn <- struct{}{}:
		s.cli.Close()
		<-s.turn
	default: // somebody looks, and will reset the timer
	}
}

// engine returns the id of the engine at the other end, and whether it was told
// in this turn.
func (s *session) engine(ctx context.Context) (id string, fresh bool, err error) {
	if s.id != "" && s.same() {
		return s.id, false, nil
	}
	info, err := s.cli.Info(ctx, client.InfoOptions{})
	if err != nil {
		return "", false, err
	}
	s.idOn = s.dials.Load()
	switch {
	case s.podman.Load():
		// Podman makes up a new id at each question, so it is known by where
		// it runs and stores.
		s.id = "podman:" + info.Info.Name + ":" + info.Info.DockerRootDir
	case info.Info.ID == "":
		return "", false, errors.New("the engine tells no id of its own")
	default:
		s.id = info.Info.ID // random, kept in its storage
	}
	return s.id, true, nil
}

// doubt has the next turn ask anew who the engine is.
func (s *session) doubt() { s.id = "" }

// same reports whether no other connection was made since the id was told.
func (s *session) same() bool { return s.dials.Load() == s.idOn }
