//go:build !linux

package helper

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// The helper roles exist for Linux only so far.

var (
	selfExe, _ = os.Executable()
	roles      = map[string]func([]byte) int{}
)

// Attr is the part of a syscall.SysProcAttr that can travel to a keeper.
type Attr struct{}

// AttrOf is not available on this system.
func AttrOf(*syscall.SysProcAttr) (Attr, error) { return Attr{}, errors.ErrUnsupported }

// OnTerminal is a.
func (a Attr) OnTerminal() Attr { return a }

// CleanMask calls f.
func CleanMask(f func()) { f() }

func mirrors(*os.ProcessState, uint32) bool { return true }

// Raise does nothing on this system.
func Raise(syscall.Signal) {}

// Watchdog is an owner's handle of its watchdog.
type Watchdog struct{ PID int }

// StartWatchdog is not available on this system.
func (b Binary) StartWatchdog(*ledger.Store, *ledger.Owner, *host.Process, bool) (*Watchdog, error) {
	return nil, errors.ErrUnsupported
}

// Done is closed when the watchdog has ended.
func (w *Watchdog) Done() <-chan struct{} { return nil }

// Dismiss does nothing on this system.
func (w *Watchdog) Dismiss() {}

// Keeper is an owner's handle of a launch's keeper.
type Keeper struct {
	PID int
	*Conn
}

// Ends reports that there is no keeper.
func (k *Keeper) Ends(context.Context) error { return errors.ErrUnsupported }

// Forget does nothing on this system.
func (k *Keeper) Forget() {}

// Receive reports that there is no keeper.
func (k *Keeper) Receive() (Event, error) { return Event{}, io.EOF }

// StartKeeper is not available on this system.
func (b Binary) StartKeeper(proof.ID, string, [3]*os.File, []*os.File, *os.File, *host.Process, bool, bool) (*Keeper, error) {
	return nil, errors.ErrUnsupported
}

// StartSpare is not available on this system.
func (b Binary) StartSpare(*Keeper, Spec, ledger.Log, *os.File) (int, error) {
	return 0, errors.ErrUnsupported
}

// LogPipe is not available on this system.
func LogPipe() (r, w *os.File, err error) { return nil, nil, errors.ErrUnsupported }

// Begin reports that there is no keeper.
func (k *Keeper) Begin(Spec) error { return errors.ErrUnsupported }
