//go:build unix

package main

import "syscall"

// ownSession starts a process as the leader of a session of its own.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
