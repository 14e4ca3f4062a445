package logfile

import (
	"context"
	"os"
	"time"

	"github.com/custody-project/custody/internal/ledger"
)

// snapshot is the log at one moment: its files, opened, the oldest first.
type snapshot struct {
	files   []*os.File
	infos   []os.FileInfo
	dropped int64 // bytes of the stream before the first of them
	counted bool  // dropped is known
}

func (s *snapshot) close() {
	for _, f := range s.files {
		f.Close()
	}
	s.files = nil
}

// end is where the stream ended.
func (s *snapshot) end() int64 {
	n := s.dropped
	for _, fi := range s.infos {
		n += fi.Size()
	}
	return n
}

// start is where the i-th file begins in the stream.
func (s *snapshot) start(i int) int64 {
	n := s.dropped
	for _, fi := range s.infos[:i] {
		n += fi.Size()
	}
	return n
}

func (s *snapshot) index(fi os.FileInfo) int {
	for i, have := range s.infos {
		if os.SameFile(have, fi) {
			return i
		}
	}
	return -1
}

// gaps bounds how many missing numbers in a row end the search for older files:
// a rotation moves one gap through the numbers, and a crash may leave one.
const gaps = 4

// look takes a snapshot at a moment when no name moves, which it learns from
// the .pos file.
func look(ctx context.Context, dir *os.Root, base string) (*snapshot, error) {
	for try := 0; ; try++ {
		before, counted := stepsOf(dir, base)
		s, err := lookOnce(dir, base, before)
		if err != nil {
			return nil, err
		}
		after, _ := stepsOf(dir, base)
		if s.counted = counted; before == after {
			return s, nil
		}
		s.close()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if try > 20 {
			time.Sleep(time.Millisecond)
		}
	}
}

func stepsOf(dir *os.Root, base string) (position, bool) {
	f, err := ledger.OpenPrivate(dir, positionName(base), os.O_RDONLY)
	if err != nil {
		return position{}, false
	}
	defer f.Close()
	p, err := readPosition(f)
	return p, err == nil
}

func lookOnce(dir *os.Root, base string, pos position) (*snapshot, error) {
	s := &snapshot{dropped: pos.dropped}
	missed := 0
	for k := 0; k < maxFiles && missed <= gaps; k++ {
		f, err := ledger.OpenPrivate(dir, numbered(base, k), os.O_RDONLY)
		if missing(err) {
			missed++
			continue
		}
		var fi os.FileInfo
		if err == nil {
			fi, err = f.Stat()
		}
		if err != nil {
			f.Close()
			s.close()
			return nil, err
		}
		if missed = 0; s.index(fi) >= 0 {
			f.Close() // it moved up meanwhile
			continue
		}
		if pos.inode != 0 && inode(fi) == pos.inode {
			s.dropped -= fi.Size() // counted as dropped, and still here
		}
		s.files, s.infos = append([]*os.File{f}, s.files...), append([]os.FileInfo{fi}, s.infos...)
	}
	return s, nil
}
