//go:build !windows

package custody

import "syscall"

var errBrokenPipe error = syscall.EPIPE
