//go:build unix && !linux

// Where waitid is not at hand, ps tells the state of a child.

package tree

import (
	"os/exec"
	"strconv"
	"strings"
)

func hasEnded(pid int) bool   { return isIn(pid, "Z") }
func hasStopped(pid int) bool { return isIn(pid, "T") }

func isIn(pid int, state string) bool {
	out, _ := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return strings.HasPrefix(strings.TrimSpace(string(out)), state)
}
