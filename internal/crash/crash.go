// Package crash names the steps at which a process of custody may die, so that
// a test can kill it there for real. Without a test's word a step costs one
// comparison.
//
//	CUSTODY_TEST_CRASH=[ROLE/]STEP[:LOG]      die there
//	CUSTODY_TEST_PAUSE=[ROLE/]STEP[=500ms],…  be slow there, as on a busy machine
//
// ROLE is a helper's role, or owner for every other process; without it any
// process dies there. LOG gets a line, as a proof that the step was reached.
package crash

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Role is what this process is; the helpers set it before anything else runs.
var Role = "owner"

var (
	crashAt = os.Getenv("CUSTODY_TEST_CRASH")
	pauseAt = os.Getenv("CUSTODY_TEST_PAUSE")
)

// Here is the step of that name.
func Here(step string) {
	if crashAt == "" && pauseAt == "" {
		return
	}
	for at := range strings.SplitSeq(pauseAt, ",") {
		at, long, _ := strings.Cut(at, "=")
		if !meant(at, step) {
			continue
		}
		d, err := time.ParseDuration(long)
		if err != nil {
			d = 500 * time.Millisecond
		}
		time.Sleep(d)
	}
	at, log, _ := strings.Cut(crashAt, ":")
	if meant(at, step) {
		if f, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
			fmt.Fprintln(f, Role, step, os.Getpid())
			f.Close()
		}
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			p.Kill() // ourselves, whose number can't be anybody else's
		}
		select {}
	}
}

func meant(at, step string) bool {
	role, s, ok := strings.Cut(at, "/")
	if !ok {
		role, s = Role, at
	}
	return s == step && role == Role
}
