package host

// MarkBelow gives the brand to what a process forked before it was branded
// itself. Between the execve of a child and its mark lie microseconds, and on
// a busy machine milliseconds, in which it can have forked. p must be our own
// unreaped child that bears the brand already, so that nothing it forks from
// now on is missed. A child that ended meanwhile and left a child of its own
// is not found any more.
func MarkBelow(p *Process, b Brand) {
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
			if has, err := q.Brand(); err == nil && has != b && SetBrand(pid, b) == nil {
				if q.Numbered() == nil {
					MarkBelow(q, b)
				} else if PeekBrand(pid) == b {
					// It was reaped and its number changed hands in between:
					// the mark is not the newcomer's.
					clearBrand(pid)
				}
			}
		}
		q.Close()
	}
}
