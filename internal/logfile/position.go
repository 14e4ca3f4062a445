package logfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/custody-project/custody/internal/ledger"
)

// position is the content of the .pos file. Readers go by the files
// themselves; they need it to say how much was rotated away, and to see that
// nothing moved while they looked.
type position struct {
	dropped int64  // bytes of the stream before the oldest file
	inode   uint64 // of the file that was dropped last: if it is still there, it is to go
	steps   int64  // counted up before and after the files are renamed
}

const (
	positionFormat = "%020d %020d %020d\n"
	positionBytes  = 63
)

func (p position) encode() []byte {
	return fmt.Appendf(nil, positionFormat, p.dropped, p.inode, p.steps)
}

func readPosition(f io.ReaderAt) (p position, err error) {
	b := make([]byte, positionBytes)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return p, err
	}
	if _, err := fmt.Sscanf(string(b), positionFormat, &p.dropped, &p.inode, &p.steps); err != nil {
		return p, err
	}
	if p.dropped < 0 {
		return p, errors.New("negative position")
	}
	return p, nil
}

// openPosition opens the .pos file for writing, and makes it if it is missing.
func openPosition(dir *os.Root, base string) (*os.File, position, error) {
	var p position
	f, err := ledger.OpenPrivate(dir, positionName(base), os.O_RDWR)
	if missing(err) {
		f, err = ledger.OpenPrivate(dir, positionName(base), os.O_RDWR|os.O_CREATE|os.O_EXCL)
	}
	if err != nil {
		return nil, p, err
	}
	if p, err = readPosition(f); err != nil {
		p = position{}
	}
	return f, p, nil
}
