//go:build !linux

package contain

import (
	"errors"
	"os/exec"
	"syscall"

	"github.com/custody-project/custody/internal/host"
)

// Asked is what a caller's own attributes decide about containment.
type Asked struct {
	UID           int
	Group, Cgroup bool
}

// AskedOf reads it.
func AskedOf(*syscall.SysProcAttr) Asked { return Asked{UID: -1} }

// Direct prepares a command that the owner forks itself.
type Direct struct{ Level string }

// PrepareDirect is not available on this system.
func PrepareDirect(*exec.Cmd, string) (*Direct, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (d *Direct) Close() {}

// Process is not available on this system.
func (d *Direct) Process(int) (*host.Process, error) { return nil, errors.ErrUnsupported }
