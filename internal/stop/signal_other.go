//go:build !linux

package stop

import (
	"errors"
	"syscall"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
)

// No handle, no signal: on these systems nothing can be proven yet, so nothing
// is sent.

func (r *run) send(*contain.Member, syscall.Signal) error       { return errors.ErrUnsupported }
func (r *run) sendGroup(*contain.Sighting, syscall.Signal) bool { return false }
func (r *run) rush(syscall.Signal, func()) bool                 { return false }
func (r *run) killCgroup(*contain.Sighting)                     {}

// EndChild is not supported here.
func EndChild(*host.Process) error { return errors.ErrUnsupported }
