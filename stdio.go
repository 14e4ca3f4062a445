package custody

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"reflect"
	"sync/atomic"
	"time"
)

// stdio carries a command's standard files. Both kinds of launch get plain
// files; what a caller gave as reader or writer is copied here, so that a
// grandchild that holds the output never hangs Wait.
type stdio struct {
	child  []io.Closer  // our copies of the child's ends
	parent []io.Closer  // our ends
	feed   func() error // copies the input
	outs   []*outlet    // copy the outputs
	fed    chan error
	done   chan error
	cut    atomic.Bool
}

// outputPatience is how long Wait goes on copying after the leader's exit
// when WaitDelay is not set.
const outputPatience = time.Second

// open returns the child's standard files; nil is the null device.
func (s *stdio) open(in io.Reader, out, errw io.Writer) (std [3]*os.File, err error) {
	if in != nil {
		if f, ok := in.(*os.File); ok {
			std[0] = f
		} else if std[0], err = s.input(in); err != nil {
			return std, err
		}
	}
	if std[1], err = s.output(out); err != nil {
		return std, err
	}
	if errw != nil && same(out, errw) {
		std[2] = std[1]
		return std, nil
	}
	std[2], err = s.output(errw)
	return std, err
}

// same compares two writers; uncomparable ones differ.
func same(a, b io.Writer) bool {
	if a == nil || b == nil || !reflect.TypeOf(a).Comparable() || !reflect.TypeOf(b).Comparable() {
		return false
	}
	return a == b
}

func (s *stdio) input(in io.Reader) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.child = append(s.child, r)
	s.parent = append(s.parent, w)
	s.feed = func() error {
		_, err := io.Copy(w, in)
		if e := w.Close(); err == nil {
			err = e
		}
		// A command need not read its input to the end.
		if errors.Is(err, errBrokenPipe) || errors.Is(err, fs.ErrClosed) {
			err = nil
		}
		return err
	}
	return r, nil
}

func (s *stdio) output(w io.Writer) (*os.File, error) {
	if w == nil {
		return nil, nil
	}
	if f, ok := w.(*os.File); ok {
		return f, nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.child = append(s.child, pw)
	s.parent = append(s.parent, pr)
	s.outs = append(s.outs, &outlet{pipe: pr, to: w})
	return pw, nil
}

// abandon closes everything after a failed start.
func (s *stdio) abandon() {
	closeAll(s.child)
	closeAll(s.parent)
	s.child, s.parent = nil, nil
}

// copy starts the copying.
func (s *stdio) copy() {
	closeAll(s.child)
	s.child = nil
	s.done = make(chan error, len(s.outs))
	for _, o := range s.outs {
		go func() { s.done <- o.copy() }()
	}
	if s.feed != nil {
		s.fed = make(chan error, 1)
		go func() { s.fed <- s.feed() }()
	}
}

// wait waits for the copying to end, but not for ever: a descendant can hold
// the other end of a pipe as long as it likes, and the reader that feeds the
// input may never return. Without a delay nothing is lost to a slow writer:
// only what a holder writes after the leader's end is cut.
func (s *stdio) wait(delay time.Duration) error {
	patience := delay
	if patience <= 0 {
		patience = outputPatience
	}
	for _, o := range s.outs {
		o.owe()
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	defer func() { closeAll(s.parent); s.parent = nil }()
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	for left := len(s.outs); left > 0; {
		select {
		case err := <-s.done:
			left--
			note(err)
		case <-timer.C:
			for _, o := range s.outs {
				if (delay > 0 || !o.finishes()) && o.close() {
					s.cut.Store(true)
				}
			}
			if delay <= 0 {
				timer.Reset(patience)
			} else if s.cut.Load() {
				note(exec.ErrWaitDelay)
			}
		}
	}
	if s.cut.Load() {
		return first
	}
	if s.fed != nil {
		select {
		case err := <-s.fed:
			note(err)
		case <-timer.C:
			if delay > 0 {
				note(exec.ErrWaitDelay)
			}
		}
	}
	return first
}

func closeAll(cs []io.Closer) {
	for _, c := range cs {
		c.Close()
	}
}
