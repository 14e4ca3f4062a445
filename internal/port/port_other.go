//go:build !linux

package port

import (
	"errors"

	"github.com/custody-project/custody/internal/host"
)

// On these systems nobody can be asked yet.

type namespace struct{ proc *host.Process }

var ours namespace

func (n namespace) listeners(int) ([]Socket, error) { return sorted(nil), errors.ErrUnsupported }
func holding([]Socket) (map[uint64][]int, error)    { return nil, errors.ErrUnsupported }
func holdsNow(int, uint64) (bool, error)            { return false, errors.ErrUnsupported }
func netns(*host.Process) uint64                    { return 0 }

// Free is not available on this system.
func Free(int) error { return errors.ErrUnsupported }
