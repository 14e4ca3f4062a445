// Package logfile keeps what a launch prints: in files of bounded size that
// are rotated, since a pipe breaks with its reader and a plain file fills the
// disk.
//
//	SCOPE/logs/<launch-id>.log      being written
//	SCOPE/logs/<launch-id>.log.1 …  before that, .1 the newest
//	SCOPE/logs/<launch-id>.log.pos  how much was rotated away, and lost
//
// Taken together, oldest first, the files are the bytes as they were printed;
// only lines that begin with "[custody: " are ours.
//
// There is one writer at a time. When it dies at any step, the next one opens
// the log and goes on; readers need no lock.
package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// Config of a log. The files' sizes never add up to more than MaxBytes×Files,
// at no moment: the oldest file is emptied before a new one gets its first
// byte. What a file system needs on top for names and partly used blocks is
// not counted. A reader that is slow keeps nothing on the disk.
type Config struct {
	MaxBytes int64 // of one file; 0: 10 MiB, at least 4 KiB
	Files    int   // how many, with the one being written; 0: 5, at most 100
}

const (
	defaultBytes = 10 << 20
	defaultFiles = 5
	minBytes     = 4 << 10
	maxFiles     = 100
)

// WithDefaults returns c with its zero values filled in, or an error if it is
// no log that could be kept.
func (c Config) WithDefaults() (Config, error) {
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultBytes
	}
	if c.Files == 0 {
		c.Files = defaultFiles
	}
	if c.MaxBytes < minBytes || c.Files < 1 || c.Files > maxFiles || c.MaxBytes > (1<<62)/maxFiles {
		return c, fmt.Errorf("log of %d files of %d bytes: want 1 to %d files of at least %d bytes", c.Files, c.MaxBytes, maxFiles, minBytes)
	}
	return c, nil
}

func base(id proof.ID) string { return id.String() + ".log" }

// numbered is the name of the k-th file of a log, counted from the newest.
func numbered(base string, k int) string {
	if k == 0 {
		return base
	}
	return base + "." + strconv.Itoa(k)
}

func freshName(base string) string    { return base + ".new" } // about to become the newest
func positionName(base string) string { return base + ".pos" }

// Remove deletes the log of a launch. A missing one is no error.
func Remove(scopeDir string, id proof.ID) error {
	dir, err := ledger.OpenLogs(scopeDir, false)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names := []string{freshName(base(id)), positionName(base(id))}
	for k := range maxFiles {
		names = append(names, numbered(base(id), k))
	}
	for _, n := range names {
		if e := dir.Remove(n); e != nil && !missing(e) && err == nil {
			err = e
		}
	}
	return err
}

func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
