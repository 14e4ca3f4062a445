package helper

import (
	"os"
	"time"
)

// crashAt is the named step at which a test wants this process dead, pauseAt
// the one at which it is to be slow, as on a busy machine.
var (
	crashAt = os.Getenv("CUSTODY_TEST_CRASH")
	pauseAt = os.Getenv("CUSTODY_TEST_PAUSE")
)

const pause = 500 * time.Millisecond

// Crash ends this process the hard way at a named step, if a test asked for
// it: the steps at which the owner or a helper may die have names, and a test
// kills for real at each of them.
func Crash(step string) {
	if pauseAt != "" && pauseAt == step {
		time.Sleep(pause)
	}
	if crashAt != "" && crashAt == step {
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			p.Kill()
		}
		select {}
	}
}

func crash(step string) { Crash(step) }
