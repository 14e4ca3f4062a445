// Package engine is the seam between custody and a container engine. Whoever
// imports package container has an engine client, which registers itself here
// as a database driver does; a program without it can't tell anything of a
// container, and touches none.
package engine

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// Client speaks to the engines that records name. Only package stop may call
// Signal and Remove, right after a look that proves.
type Client interface {
	// Look asks the engine about the container of a record: by its id, or by
	// the launch's label where the record is an intent that knows none.
	Look(ctx context.Context, r *ledger.Record) Sight

	// Signal sends a signal, by its name without SIG, to the first process of
	// a container. One that does not run matches os.ErrProcessDone.
	Signal(ctx context.Context, c *ledger.Container, id, signal string) error

	// Remove removes a container that does not run, and its unnamed volumes.
	// A missing one is no error.
	Remove(ctx context.Context, c *ledger.Container, id string) error

	// Wait returns when the container does not run any more, with its status;
	// nil if it was gone already. The next look may tell more, or nothing.
	Wait(ctx context.Context, c *ledger.Container, id string) (*ledger.Exit, error)

	// Logs writes what the container wrote, and with follow goes on until it
	// ends.
	Logs(ctx context.Context, c *ledger.Container, id string, opt LogOptions, stdout, stderr io.Writer) error
}

// LogOptions say which lines Logs writes.
type LogOptions struct {
	Follow bool
	Tail   int       // the last so many lines; 0 means all
	Since  time.Time // zero means from the beginning
}

// Sight is what one look at a container found.
type Sight struct {
	Facts []proof.Evidence // Engine, Container and Label, as far as they could be asked
	Err   error            // why the last of them could not be told

	ID    string       // of the container found, else empty
	State string       // the engine's word: created, running, paused, exited, …
	Live  bool         // it may have processes
	PID   int          // of its first process, as the engine numbers it; 0 if there is none
	Exit  *ledger.Exit // how it ended, nil unless it ran and ended
}

// ErrNoClient says that this program can't speak to container engines.
var ErrNoClient = errors.New("a container: this program has no engine client; run 'custody sweep'")

var registered atomic.Pointer[Client]

// Register makes the client known; package container does it when it is
// imported.
func Register(c Client) { registered.Store(&c) }

// Registered returns the client, or ErrNoClient.
func Registered() (Client, error) {
	if c := registered.Load(); c != nil {
		return *c, nil
	}
	return nil, ErrNoClient
}

// Plan is a container about to be started on behalf of an owner.
type Plan struct {
	Name         string
	WaitName     bool
	Replace      bool
	Ports        []int
	Labels       map[string]string
	Phases       []ledger.Phase
	DeathPhases  []ledger.Phase
	OnOwnerDeath ledger.OnOwnerDeath
	Command      []string
	Container    ledger.Container // without id and label

	// Create has the engine make the container, with the record's label. An
	// error that matches ErrRefused says for certain that none was made.
	Create func(context.Context, *ledger.Record) (id string, err error)

	// Begin has the engine start it.
	Begin func(context.Context, *ledger.Record) error
}

// ErrRefused is matched by the error of a Create that made no container for
// certain.
var ErrRefused = errors.New("no container was made")

// Refused says of an error that no container was made.
func Refused(err error) error { return refused{err} }

type refused struct{ error }

func (r refused) Unwrap() error        { return r.error }
func (r refused) Is(target error) bool { return target == ErrRefused }
