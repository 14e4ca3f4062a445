package ledger

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"

	"github.com/custody-project/custody/internal/crash"
)

// Files that are ours alone: opened without following links, and replaced by
// renaming.

// readFile reads a file of ours without following links; anything but a
// private regular file of our own is refused.
func (o *Owner) readFile(name string) ([]byte, error) { return readPrivate(o.root, name) }

func readPrivate(root *os.Root, name string) ([]byte, error) {
	for try := 0; ; try++ {
		f, err := openPrivate(root, name)
		if errors.Is(err, errReplaced) && try < 1000 {
			continue // a writer put another file in its place meanwhile: read that
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, MaxRecord+1))
		if err != nil {
			return nil, err
		}
		return b, nil
	}
}

// errReplaced says that the name means another file by now.
var errReplaced = errors.New("was replaced while it was opened")

func openPrivate(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if fi, e := root.Lstat(name); e == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return nil, errors.New("is a link to nothing")
		} else if e == nil {
			return nil, errReplaced
		}
	}
	if err != nil {
		return nil, err
	}
	if err = checkFile(f); errors.Is(err, fs.ErrNotExist) {
		err = errReplaced
	}
	if err == nil {
		err = notLinked(root, name, f)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// notLinked refuses a file that was reached through a link: an os.Root follows
// links that stay inside it, whatever the flags of the open say.
func notLinked(root *os.Root, name string, f *os.File) error {
	named, err := root.Lstat(name)
	if err != nil {
		return err
	}
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	switch {
	case os.SameFile(named, opened):
		return nil
	case named.Mode()&fs.ModeSymlink != 0:
		return errors.New("is a link")
	}
	return errReplaced
}

func (o *Owner) writeFile(name string, b []byte, sync bool) error {
	return writePrivate(o.root, name, b, sync)
}

func writePrivate(root *os.Root, name string, b []byte, sync bool) error {
	// A name of its own: two writers never share a file, and what a crash
	// leaves under a fixed one is never written through.
	tmp := fmt.Sprintf(".%s.%016x.tmp", name, rand.Uint64())
	f, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && sync {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		crash.Here("half-written")
		err = root.Rename(tmp, name)
	}
	if err != nil {
		root.Remove(tmp)
		return err
	}
	if sync {
		d, err := root.Open(".")
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Sync()
	}
	return nil
}
