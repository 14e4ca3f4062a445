//go:build unix && !linux

// An exec puts back the default action of every caught signal, so a shell does
// the dying here.

package tree

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// runtimeSignals are those the Go runtime uses on its own account.
const runtimeSignals = "URG"

var moreEndingSignals []os.Signal

func restoreDefault(sig syscall.Signal) {
	signal.Reset(sig)
	if sig == syscall.SIGKILL {
		return
	}
	syscall.Exec("/bin/sh", []string{"sh", "-c", fmt.Sprintf("kill -%d $$", int(sig))}, os.Environ())
}
