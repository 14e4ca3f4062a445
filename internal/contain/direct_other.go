//go:build !linux

package contain

import (
	"errors"
	"os/exec"

	"github.com/custody-project/custody/internal/host"
)

// Direct prepares a command that the owner forks itself.
type Direct struct{ Level string }

// PrepareDirect is not available on this system.
func PrepareDirect(*exec.Cmd, string) (*Direct, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (d *Direct) Close() {}

// Process is not available on this system.
func (d *Direct) Process(int) (*host.Process, error) { return nil, errors.ErrUnsupported }
