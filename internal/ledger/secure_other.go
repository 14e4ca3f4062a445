//go:build !linux

package ledger

import (
	"context"
	"errors"
	"os"

	"github.com/custody-project/custody/proof"
)

// Locks and ownership checks exist for Linux only so far; elsewhere no store
// can be opened, so that nothing is trusted unchecked.

const (
	openFlags   = 0
	rangeUpdate = 1
)

var errReadOnly = errors.New("read-only file system")

func checkDir(*os.Root, string) error  { return errors.ErrUnsupported }
func checkFile(*os.File) error         { return errors.ErrUnsupported }
func networkFS(string) (string, error) { return "", errors.ErrUnsupported }
func tryFlock(*os.File) (bool, error)  { return false, errors.ErrUnsupported }
func flock(*os.File) error             { return errors.ErrUnsupported }
func (o *Owner) lockRange(proof.ID, int64) (func(), error) {
	return nil, errors.ErrUnsupported
}
func (o *Owner) holdAll(context.Context) (func(), error) { return nil, errors.ErrUnsupported }

// HoldStop is not available on this system.
func (o *Owner) HoldStop(context.Context, proof.ID) (func(), error) {
	return nil, errors.ErrUnsupported
}

// TryHoldStop is not available on this system.
func (o *Owner) TryHoldStop(proof.ID) (func(), bool, error) {
	return nil, false, errors.ErrUnsupported
}

// Holder names nobody on this system.
func (o *Owner) Holder() string { return "another process" }
