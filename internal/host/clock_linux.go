package host

import (
	"bytes"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Start times are ticks since boot, and a time namespace (Linux 5.6) shifts
// them for whoever reads them in it: /proc/PID/stat and CLOCK_BOOTTIME both.
// Everything this package tells and records is of the initial time namespace,
// so that a record means the same to all.

const tick = 1e7 // nanoseconds, USER_HZ is 100 on every architecture Go runs on

// bootShift is what our time namespace adds to the boot clock, in ticks.
var bootShift = sync.OnceValue(func() uint64 {
	b, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0 // no time namespaces
	}
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) != 3 || string(f[0]) != "boottime" {
			continue
		}
		sec, err1 := strconv.ParseInt(string(f[1]), 10, 64)
		nsec, err2 := strconv.ParseInt(string(f[2]), 10, 64)
		if err1 == nil && err2 == nil {
			return uint64(sec*(1e9/tick) + nsec/tick) // a negative one wraps, and so does what it is taken from
		}
	}
	return 0
})

// StartNow returns a start-time tick that no process started from now on is
// below: the clock of /proc/PID/stat (CLOCK_BOOTTIME at 100 Hz), rounded down.
func StartNow() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano()/tick) - bootShift()
}

// parseStat is ParseStat with the start time of the initial time namespace.
func parseStat(b []byte) (Row, error) {
	row, err := ParseStat(b)
	row.Start -= bootShift()
	return row, err
}
