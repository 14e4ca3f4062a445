package logfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// position is the content of the .pos file: a few bytes that are written over
// in place, which goes on a full disk too. Readers go by the files themselves;
// they need it to say how much was rotated away or lost, and to see that nothing
// moved while they looked.
type position struct {
	dropped int64  // bytes of the stream before the oldest file
	inode   uint64 // of the file that was dropped last: if it is still there, it is to go
	steps   int64  // counted up before and after the files are renamed
	lost    int64  // bytes that could not be written
}

const (
	positionFormat = "%020d %020d %020d %020d\n"
	positionBytes  = 84
)

func (p position) encode() []byte {
	return fmt.Appendf(nil, positionFormat, p.dropped, p.inode, p.steps, p.lost)
}

func readPosition(f io.ReaderAt) (p position, err error) {
	b := make([]byte, positionBytes)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return p, err
	}
	if _, err := fmt.Sscanf(string(b), positionFormat, &p.dropped, &p.inode, &p.steps, &p.lost); err != nil {
		return p, err
	}
	if p.dropped < 0 || p.lost < 0 {
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
		// Its block is taken now, while there is room.
		p = position{}
		f.WriteAt(p.encode(), 0)
	}
	return f, p, nil
}

// Lost returns how many bytes of a launch's output could not be written, as far
// as that is known. A missing log has lost nothing.
func Lost(scopeDir string, id proof.ID) int64 {
	dir, err := ledger.OpenLogs(scopeDir, false)
	if err != nil {
		return 0
	}
	defer dir.Close()
	p, _ := stepsOf(dir, base(id))
	return p.lost
}
