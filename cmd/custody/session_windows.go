package main

import "syscall"

// ownSession has no meaning here: Windows has no such sessions.
func ownSession() *syscall.SysProcAttr { return nil }
