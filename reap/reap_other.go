//go:build !linux

package reap

import "errors"

type system struct{}

// No other system gives orphans to anybody but PID 1, or says whose they are.
func (r *Reaper) begin() error {
	return wrap("1: the system is Linux", errors.ErrUnsupported)
}
