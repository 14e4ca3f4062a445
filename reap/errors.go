package reap

import "fmt"

// wrap says what Begin could not do, and which precondition of the package's
// documentation failed.
func wrap(precondition string, err error) error {
	return fmt.Errorf("begin reaper: precondition %s: %w", precondition, err)
}
