package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// Writer writes a launch's log. It keeps nothing in memory: what Write has
// returned from is in the file, though not synced to the disk.
type Writer struct {
	cfg  Config
	dir  *os.Root
	base string

	mu      sync.Mutex
	file    *os.File // nil while it can't be opened or made
	size    int64
	midLine bool // its last byte is no line end
	posFile *os.File
	pos     position

	lost   int64 // all bytes lost
	told   int64 // those that the .pos file tells of
	owed   int64 // those that the log does not speak of yet
	notice []byte
	cause  error
	retry  *time.Timer // not nil while writing fails
	pause  time.Duration
	closed bool
}

// Writing that failed is tried again after firstPause, then ever more rarely,
// at least every lastPause. Meanwhile a write costs an addition.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
)

// Open opens the log of a launch for writing, and makes it if it is missing.
// One that is there is continued. A full disk is no error: the output is lost
// until there is room, and counted. A log that is a link, has a second name or
// is open to others is refused. Only Linux has it; elsewhere the error matches
// errors.ErrUnsupported.
func Open(scopeDir string, id proof.ID, cfg Config) (*Writer, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	dir, err := ledger.OpenLogs(scopeDir, true)
	if err != nil {
		return nil, err
	}
	w := &Writer{cfg: cfg, dir: dir, base: base(id)}
	if err := w.open(); err != nil {
		if !full(err) {
			w.close()
			return nil, fmt.Errorf("open log: %w", err)
		}
		w.fail(err)
	}
	return w, nil
}

// full reports whether an error may pass by itself.
func full(err error) bool {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// limit is where a file ends. What the .pos file takes is set aside.
func (w *Writer) limit() int64 { return w.cfg.MaxBytes - positionBytes }

// enough is when a file may end at the next line end: a line that begins
// before it has room to be finished.
func (w *Writer) enough() int64 { return w.limit() - min(w.limit()/4, 64<<10) }

// Write never fails and never waits for a reader. What can't be written, on a
// full disk or a broken one, is lost and counted; the log says so as soon as it
// can be written again. The only error is os.ErrClosed.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, os.ErrClosed
	}
	if w.retry != nil {
		w.lose(len(p))
		return len(p), nil
	}
	if n, err := w.put(p); err != nil {
		w.lose(len(p) - n)
		w.fail(err)
	}
	return len(p), nil
}

// ReadFrom copies from r, a pipe as a rule, until its end. The error is r's.
func (w *Writer) ReadFrom(r io.Reader) (n int64, err error) {
	buf := make([]byte, 64<<10) // what a pipe holds
	for {
		k, err := r.Read(buf)
		n += int64(k)
		if _, err := w.Write(buf[:k]); err != nil {
			return n, err
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Lost returns how many bytes were lost since Open, and why the last of them.
func (w *Writer) Lost() (bytes int64, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost, w.cause
}

// Close tries once more to write down a loss, and lets go of the files.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	if w.retry != nil {
		w.retry.Stop()
		w.settle()
	}
	w.tell()
	return w.close()
}

func (w *Writer) close() error {
	for _, f := range []*os.File{w.file, w.posFile} {
		if f != nil {
			f.Close()
		}
	}
	return w.dir.Close()
}

// put writes p, into as many files as it takes.
func (w *Writer) put(p []byte) (done int, err error) {
	for len(p) > done {
		k := w.share(p[done:])
		if k == 0 {
			if err := w.rotate(); err != nil {
				return done, err
			}
			continue
		}
		n, err := w.file.Write(p[done : done+k])
		if done, w.size = done+n, w.size+int64(n); n > 0 {
			w.midLine = p[done-1] != '\n'
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// share is how much of p goes into the current file. It ends at a line end, as
// far as lines fit; 0 means that a new file is to be begun.
func (w *Writer) share(p []byte) int {
	if w.size+int64(len(p)) <= w.enough() {
		return len(p)
	}
	room := max(0, w.limit()-w.size)
	head := p[:min(int64(len(p)), room)]
	if i := bytes.LastIndexByte(head, '\n'); i >= 0 {
		return i + 1
	}
	if !w.midLine && w.size > 0 {
		return 0
	}
	return len(head) // the line goes on; at the very end it is cut
}

func (w *Writer) lose(n int) {
	w.lost += int64(n)
	w.owed += int64(n)
}

// fail sees to it that writing is tried again.
func (w *Writer) fail(err error) {
	w.cause = plain(err)
	w.pause = firstPause
	w.retry = time.AfterFunc(w.pause, w.again)
}

// again is the retry's turn.
func (w *Writer) again() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	if w.settle() {
		w.retry = nil
	} else {
		w.pause = min(2*w.pause, lastPause)
		w.retry = time.AfterFunc(w.pause, w.again)
	}
	w.tell()
	w.mu.Unlock()
}

// tell writes what was lost since the last time where readers find it.
func (w *Writer) tell() {
	if w.posFile != nil && w.lost > w.told {
		w.pos.lost += w.lost - w.told
		w.told = w.lost
		w.savePosition()
	}
}

// settle writes down what was lost, as a line of its own. It reports false if
// it could not: then the loss stays owed.
func (w *Writer) settle() bool {
	if w.file == nil {
		if err := w.open(); err != nil {
			w.cause = plain(err)
			return false
		}
	}
	for w.owed > 0 || len(w.notice) > 0 {
		told := int64(0)
		if len(w.notice) == 0 {
			if w.midLine {
				w.notice = []byte("\n")
			}
			told = w.owed
			w.notice = fmt.Appendf(w.notice, "[custody: %d bytes of output lost: %v]\n", told, w.cause)
		}
		n, err := w.put(w.notice)
		w.notice = w.notice[n:]
		switch {
		case err == nil:
			w.owed -= told
		case n == 0 && told > 0:
			w.notice = nil // not begun: next time with the number of then
		default:
			w.owed -= told
		}
		if err != nil {
			w.cause = plain(err)
			return false
		}
	}
	return true
}

// plain is the system's word for what went wrong, without path and operation.
func plain(err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}
