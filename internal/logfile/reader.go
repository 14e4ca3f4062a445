package logfile

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// Reading says what of a log is wanted.
type Reading struct {
	Last   int  // lines: the last so many of what is there; 0: all, negative: none
	Follow bool // go on with what is written later

	// Ended reports whether nothing more will be written. A reader that follows
	// asks before each look, and ends when it says so and all is read; nil is
	// never.
	Ended func() bool
}

// Copy copies a launch's log to out, the oldest file first. It takes part in
// no lock and holds up no writer; what is rotated away before it could be read
// is named in a line "[custody: N bytes were rotated away]". A log that does
// not exist matches fs.ErrNotExist; other errors are those of out, of ctx, or
// of a log that can't be believed.
func Copy(ctx context.Context, out io.Writer, scopeDir string, id proof.ID, what Reading) error {
	dir, err := ledger.OpenLogs(scopeDir, false)
	if err != nil {
		return err
	}
	defer dir.Close()
	r := &reader{dir: dir, base: base(id), out: out, buf: make([]byte, 64<<10), lineEnd: true}
	defer r.close()
	if err := r.begin(ctx, what); err != nil {
		return err
	}
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		ended := !what.Follow || what.Ended != nil && what.Ended()
		more, err := r.step(ctx)
		if err != nil {
			return err
		}
		if more {
			pause = firstLook
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// A reader that has read all looks again after firstLook, then ever more
// rarely, at least every lastLook: a look is two system calls.
const (
	firstLook = 5 * time.Millisecond
	lastLook  = 200 * time.Millisecond
)

type reader struct {
	dir  *os.Root
	base string
	out  io.Writer
	buf  []byte

	cur     *os.File
	info    os.FileInfo
	off     int64 // in cur
	from    int64 // where cur begins in the stream
	until   int64 // where to stop, in the stream; negative: nowhere
	lineEnd bool  // what was written to out ends with a line
}

func (r *reader) close() {
	if r.cur != nil {
		r.cur.Close()
	}
}

// begin opens the file in which the wanted part begins.
func (r *reader) begin(ctx context.Context, what Reading) error {
	s, err := look(ctx, r.dir, r.base)
	if err != nil {
		return err
	}
	defer s.close()
	if len(s.files) == 0 {
		return fmt.Errorf("log %s: %w", r.base, fs.ErrNotExist)
	}
	r.until = -1
	if !what.Follow {
		r.until = s.end()
	}
	i, off := 0, int64(0)
	if what.Last != 0 {
		i, off = s.last(max(0, what.Last))
	}
	r.take(s, i)
	r.off = off
	return nil
}

// take makes the i-th file of a snapshot the current one.
func (r *reader) take(s *snapshot, i int) {
	r.close()
	r.cur, r.info, r.off, r.from = s.files[i], s.infos[i], 0, s.start(i)
	s.files[i] = nil
	for j, f := range s.files {
		if j != i {
			f.Close()
		}
	}
	s.files = nil
}

// step reads what there is of the current file, and goes on to the next one if
// that is all of it. It reports whether it came any further.
func (r *reader) step(ctx context.Context) (bool, error) {
	// Asked before reading: what is written before its name moves is read.
	sealed := !r.newest()
	n, err := r.drain(ctx)
	if err != nil || !sealed || r.done() {
		return n > 0, err
	}
	moved, err := r.next(ctx)
	return n > 0 || moved, err
}

func (r *reader) done() bool { return r.until >= 0 && r.from+r.off >= r.until }

func (r *reader) newest() bool {
	fi, err := r.dir.Lstat(r.base)
	return err == nil && os.SameFile(fi, r.info)
}

func (r *reader) drain(ctx context.Context) (total int64, err error) {
	for !r.done() {
		buf := r.buf
		if left := r.until - r.from - r.off; r.until >= 0 && left < int64(len(buf)) {
			buf = buf[:left]
		}
		n, err := r.cur.ReadAt(buf, r.off)
		r.off, total = r.off+int64(n), total+int64(n)
		if n > 0 {
			r.lineEnd = buf[n-1] == '\n'
			if _, err := r.out.Write(buf[:n]); err != nil {
				return total, err
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// next goes on to the file after the current one. If that is not there any
// more, or was emptied before all of it was read, it says how much is missing.
func (r *reader) next(ctx context.Context) (bool, error) {
	s, err := look(ctx, r.dir, r.base)
	if err != nil {
		return false, err
	}
	defer s.close()
	i := s.index(r.info)
	whole := i >= 0 && s.infos[i].Size() >= max(1, r.off) // none is sealed empty
	switch {
	case i+1 == len(s.files):
		return false, nil // the next is being made, or the log was deleted
	case !whole:
		if err := r.gap(s, s.start(i+1)-r.from-r.off); err != nil {
			return false, err
		}
	}
	r.take(s, i+1)
	return true, nil
}

// gap says that n bytes were rotated away.
func (r *reader) gap(s *snapshot, n int64) error {
	say := ""
	if !r.lineEnd {
		say = "\n"
	}
	switch {
	case !s.counted:
		say += "[custody: output was rotated away]\n"
	case n > 0:
		say += fmt.Sprintf("[custody: %d bytes were rotated away]\n", n)
	default:
		return nil // it had been read to its very end
	}
	r.lineEnd = true
	_, err := io.WriteString(r.out, say)
	return err
}
