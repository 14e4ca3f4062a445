// The announcements of a tree, read by whoever runs it: who is in it, with
// enough of each process's identity to watch it without mistake.

package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Proc is one process as it announced itself.
type Proc struct {
	Role  string
	PID   int    // as the process itself sees it
	Start uint64 // clock ticks since boot; 0 where the platform does not tell
	Inode uint64 // of its pidfd; 0 where that does not identify a process
	PGID  int
	SID   int
}

func (p Proc) String() string {
	return fmt.Sprintf("%s %d %d %d %d %d", p.Role, p.PID, p.Start, p.Inode, p.PGID, p.SID)
}

// ReadPids returns the processes that have announced themselves in file so
// far, in that order.
func ReadPids(file string) ([]Proc, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var procs []Proc
	for line := range strings.Lines(string(b)) {
		var p Proc
		n, err := fmt.Sscanf(line, "%s %d %d %d %d %d\n",
			&p.Role, &p.PID, &p.Start, &p.Inode, &p.PGID, &p.SID)
		if err != nil || n != 6 {
			return procs, fmt.Errorf("tree: %s: bad line %q", file, line)
		}
		procs = append(procs, p)
	}
	return procs, nil
}

// Wait returns once at least n processes have announced themselves in file. If
// ctx ends first it returns those that have, and an error.
func Wait(ctx context.Context, file string, n int) ([]Proc, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		procs, err := ReadPids(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return procs, err
		}
		if len(procs) >= n {
			return procs, nil
		}
		select {
		case <-ctx.Done():
			return procs, fmt.Errorf("tree: %d of %d processes announced: %w",
				len(procs), n, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
