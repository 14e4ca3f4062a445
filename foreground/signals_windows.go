package foreground

import (
	"os"
	"syscall"
)

// Windows has no job control; these never arrive.
const (
	tstp = syscall.Signal(-1)
	ttin = syscall.Signal(-2)
	ttou = syscall.Signal(-3)
	cont = syscall.Signal(-4)
)

var relay []os.Signal
