//go:build unix

package foreground

import (
	"os"
	"syscall"
)

const (
	tstp = syscall.SIGTSTP
	ttin = syscall.SIGTTIN
	ttou = syscall.SIGTTOU
	cont = syscall.SIGCONT
)

var relay = []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGALRM, tstp, cont}
