// Looking at the state of a child without collecting it.

package tree

import "golang.org/x/sys/unix"

// stateOf tells whether a child has reached what options ask for: WEXITED or
// WSTOPPED.
func stateOf(pid, options int) bool {
	// The kernel fills in si_signo, its first field, if there is news.
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, options|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}
