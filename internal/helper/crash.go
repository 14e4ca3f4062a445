package helper

import "os"

// crashAt is the named step at which a test wants this process dead.
var crashAt = os.Getenv("CUSTODY_TEST_CRASH")

// Crash ends this process the hard way at a named step, if a test asked for
// it: the steps at which the owner or a helper may die have names, and a test
// kills for real at each of them.
func Crash(step string) {
	if crashAt != "" && crashAt == step {
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			p.Kill()
		}
		select {}
	}
}

func crash(step string) { Crash(step) }
