//go:build unix

package sweep

import (
	"syscall"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
)

// ExitOf returns the recorded form of a wait status.
func ExitOf(status uint32) *ledger.Exit {
	ws := syscall.WaitStatus(status)
	x := &ledger.Exit{Code: ws.ExitStatus(), Status: status}
	if ws.Signaled() {
		x.Signal = stop.SignalName(ws.Signal())
	}
	return x
}
