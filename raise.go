package custody

import (
	"syscall"

	"github.com/custody-project/custody/internal/helper"
)

// RaiseSelf ends this process by the signal, without a core dump: the last act
// of a program that mirrors how its command ended. It returns if the signal
// can't end us, as for PID 1; then exit with 128 plus its number.
func RaiseSelf(sig syscall.Signal) { helper.Raise(sig) }
