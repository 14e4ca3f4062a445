//go:build !linux

package stop

import "syscall"

func systemSignal(string) (syscall.Signal, bool)     { return 0, false }
func systemSignalName(syscall.Signal) (string, bool) { return "", false }
