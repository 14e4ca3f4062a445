package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/ledger"
)

// open opens the newest file, or makes it, after finishing what a writer left
// half done that died in a rotation.
func (w *Writer) open() (err error) {
	if w.posFile == nil {
		if w.posFile, w.pos, err = openPosition(w.dir, w.base); err != nil {
			return err
		}
		if err := w.tidy(); err != nil {
			return err
		}
	}
	w.file, err = ledger.OpenPrivate(w.dir, w.base, os.O_RDWR|os.O_APPEND)
	if missing(err) {
		if fi, e := w.dir.Lstat(w.base); e == nil {
			return fmt.Errorf("%s: %v: want a regular file", w.base, fi.Mode().Type())
		}
		w.file, err = ledger.OpenPrivate(w.dir, w.base, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	}
	if err != nil {
		w.file = nil
		return err
	}
	fi, err := w.file.Stat()
	if err != nil {
		return err
	}
	w.size, w.midLine = fi.Size(), false
	if last := make([]byte, 1); w.size > 0 {
		n, _ := w.file.ReadAt(last, w.size-1)
		w.midLine = n == 1 && last[0] != '\n'
	}
	return nil
}

// tidy ends a rotation that was broken off. A gap in the numbers may stay: the
// next rotation fills it first.
func (w *Writer) tidy() error {
	if err := w.dir.Remove(freshName(w.base)); err != nil && !missing(err) {
		return err
	}
	for k := range maxFiles {
		name := numbered(w.base, k)
		fi, err := w.dir.Lstat(name)
		if err != nil {
			continue
		}
		if k >= w.cfg.Files || w.pos.inode != 0 && inode(fi) == w.pos.inode {
			if err := w.dir.Remove(name); err != nil {
				return err
			}
		}
	}
	w.moved()
	return nil
}

// rotate begins a new file. The new one is made first: where that fails, on a
// disk without room for one more, every old file stays. Then the oldest goes,
// if there are as many as there may be, the others move up by one, and the new
// one takes its name.
func (w *Writer) rotate() error {
	fresh, err := w.fresh()
	if err != nil {
		return err
	}
	crash.Here("log-made")
	err = w.shift()
	w.file.Close()
	w.file, w.size, w.midLine = fresh, 0, false
	if err != nil {
		w.file = nil // whatever has the name by now is opened again
		fresh.Close()
	}
	return err
}

func (w *Writer) fresh() (*os.File, error) {
	const flags = os.O_RDWR | os.O_APPEND | os.O_CREATE | os.O_EXCL
	f, err := ledger.OpenPrivate(w.dir, freshName(w.base), flags)
	if errors.Is(err, fs.ErrExist) { // of a rotation that failed
		if err := w.dir.Remove(freshName(w.base)); err != nil {
			return nil, err
		}
		f, err = ledger.OpenPrivate(w.dir, freshName(w.base), flags)
	}
	return f, err
}

func (w *Writer) shift() error {
	gap := 0
	for ; gap < w.cfg.Files; gap++ {
		if _, err := w.dir.Lstat(numbered(w.base, gap)); missing(err) {
			break
		}
	}
	w.pos.steps++
	w.savePosition()
	if gap == w.cfg.Files {
		gap--
		w.drop(numbered(w.base, gap))
		crash.Here("log-dropped")
	}
	for ; gap > 0; gap-- {
		if err := w.dir.Rename(numbered(w.base, gap-1), numbered(w.base, gap)); err != nil {
			return err
		}
		crash.Here("log-moved")
	}
	if err := w.dir.Rename(freshName(w.base), w.base); err != nil {
		return err
	}
	crash.Here("log-rotated")
	w.moved()
	return nil
}

// drop empties the oldest file, after writing down how much that is. Emptied,
// it takes no room any more even if a reader has it open.
func (w *Writer) drop(name string) {
	f, err := ledger.OpenPrivate(w.dir, name, os.O_RDWR)
	if err != nil {
		return // no file of ours: it is replaced, not written to
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && inode(fi) != w.pos.inode {
		w.pos.dropped, w.pos.inode = w.pos.dropped+fi.Size(), inode(fi)
		w.savePosition()
	}
	crash.Here("log-counted")
	f.Truncate(0)
}

// moved tells readers that all names have moved. The dropped file is gone, and
// its inode's number may come again.
func (w *Writer) moved() {
	w.pos.steps++
	w.pos.inode = 0
	w.savePosition()
}

// savePosition writes over the same few bytes each time. Where even that
// fails, readers can't tell how much was rotated away, and say only that.
func (w *Writer) savePosition() { w.posFile.WriteAt(w.pos.encode(), 0) }
