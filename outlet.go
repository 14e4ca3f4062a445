package custody

import (
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/custody-project/custody/internal/host"
)

// outlet copies one output of a command to its writer, and knows how far it
// is, so that a slow writer is told from somebody who holds the pipe.
type outlet struct {
	pipe *os.File
	to   io.Writer

	taken   atomic.Int64 // bytes read from the pipe
	writing atomic.Bool  // the writer has the last of them
	owed    int64        // bytes that are delivered however long it takes

	mu     sync.Mutex
	closed bool // the pipe: at its end, or cut
	cut    bool
}

// copy copies to the end of the output. A cut is no error.
func (o *outlet) copy() error {
	_, err := io.Copy(o.to, (*outletReader)(o))
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		o.pipe.Close()
	}
	if o.cut {
		return nil
	}
	return err
}

// outletReader is the pipe as the writer's side sees it: who asks for more has
// dealt with what it got.
type outletReader outlet

func (o *outletReader) Read(p []byte) (int, error) {
	o.writing.Store(false)
	n, err := o.pipe.Read(p)
	if n > 0 {
		o.writing.Store(true)
		o.taken.Add(int64(n))
	}
	return n, err
}

// owe is called when the leader has ended: what is in the pipe by then is
// owed. What is read between the two looks is counted twice; an idle pipe
// settles that in finishes.
func (o *outlet) owe() {
	waiting, _, _ := host.PipeState(o.pipe) // 0 where it can't be told
	o.owed = o.taken.Load() + int64(waiting)
}

// finishes reports whether to go on: the copying comes to its end by itself,
// or what is owed is not delivered yet.
func (o *outlet) finishes() bool {
	waiting, held, err := host.PipeState(o.pipe)
	if err == nil && !held {
		return true // nothing more can come
	}
	busy := o.writing.Load() || waiting > 0
	// While the writer has a piece that began below the mark, taken can be
	// beyond it: that piece is delivered even by a cut.
	return busy && o.taken.Load() < o.owed
}

// close cuts the output off, and reports whether it was still open. A piece
// that the writer has already is delivered.
func (o *outlet) close() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	o.closed, o.cut = true, true
	o.pipe.Close()
	return true
}
