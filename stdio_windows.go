package custody

import "syscall"

var errBrokenPipe error = syscall.Errno(109) // ERROR_BROKEN_PIPE
