package stop

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// Signals that only Linux has, and the real-time ones, which programs number
// from RTMIN (34, after the two that the C library keeps to itself).
const (
	rtMin = 34
	rtMax = 64
)

func systemSignal(name string) (syscall.Signal, bool) {
	switch name {
	case "PWR":
		return syscall.SIGPWR, true
	case "STKFLT":
		return syscall.SIGSTKFLT, true
	case "RTMIN":
		return rtMin, true
	case "RTMAX":
		return rtMax, true
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(name, "RTMIN+")); err == nil && strings.HasPrefix(name, "RTMIN+") && n >= 0 && rtMin+n <= rtMax {
		return syscall.Signal(rtMin + n), true
	}
	return 0, false
}

func systemSignalName(sig syscall.Signal) (string, bool) {
	switch {
	case sig == syscall.SIGPWR:
		return "PWR", true
	case sig == syscall.SIGSTKFLT:
		return "STKFLT", true
	case sig >= rtMin && sig <= rtMax:
		return fmt.Sprintf("RTMIN+%d", sig-rtMin), true
	}
	return "", false
}
