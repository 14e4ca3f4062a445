package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// Marking others, and being marked for the time of a fork. A limit is set by
// number, so whoever marks by number looks afterwards whom it met.

// WearBrand marks this process, so that what it forks bears the mark from
// birth. takeOff gives back what it bore before: inside another launch that is
// the outer one's mark.
func WearBrand(b Brand) (takeOff func(), err error) {
	old, err := swapBrand(0, b)
	if err != nil {
		return nil, err
	}
	return func() { unix.Prlimit(0, rlimitRTIME, &old, nil) }, nil
}

// Mark marks the process of a handle. If its number changed hands meanwhile
// (somebody else collected it) the newcomer gets back what it bore, and the
// error says so.
func Mark(p *Process, b Brand) error {
	old, err := swapBrand(p.pid, b)
	if err != nil {
		return err
	}
	if err = p.Numbered(); err != nil && PeekBrand(p.pid) == b {
		unix.Prlimit(p.pid, rlimitRTIME, &old, nil)
	}
	return err
}

// MarkBelow gives the brand to what a process forked before it was branded
// itself. Between the execve of a child and its mark lie microseconds, and on
// a busy machine milliseconds, in which it can have forked. p must be our own
// unreaped child that bears the brand already, so that nothing it forks from
// now on is missed. A child that ended meanwhile and left a child of its own
// is not found any more.
//
// A process that bears a mark of its own is of a launch inside this one, and
// keeps it; a mark that we bear ourselves came down to it from us.
func MarkBelow(p *Process, b Brand) { markBelow(p, b, PeekBrand(os.Getpid())) }

func markBelow(p *Process, b, inherited Brand) {
	kids, err := p.Children()
	if err != nil {
		return // ended, or not to be listed: what can be marked is marked
	}
	for _, pid := range kids {
		q, err := Open(pid)
		if err != nil {
			continue
		}
		// Its parent is p, so it is of the launch; its number means it as
		// long as the handle says so.
		if row, err := q.Stat(); err == nil && row.PPID == p.PID() && p.Numbered() == nil {
			if has, err := q.Brand(); err == nil && has != b && (has == 0 || has == inherited) && Mark(q, b) == nil {
				markBelow(q, b, inherited)
			}
		}
		q.Close()
	}
}
