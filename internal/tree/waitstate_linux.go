// Looking at the state of a child without collecting it.

package tree

import "golang.org/x/sys/unix"

// hasEnded tells whether a child has ended, hasStopped whether it is stopped.
func hasEnded(pid int) bool   { return isNews(pid, unix.WEXITED) }
func hasStopped(pid int) bool { return isNews(pid, unix.WSTOPPED) }

func isNews(pid, options int) bool {
	// The kernel fills in si_signo, its first field, if there is news.
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, options|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}
