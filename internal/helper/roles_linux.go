package helper

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfExe is the running binary, even if the file was replaced or deleted: the
// child that executes it resolves the link to the binary it was forked from.
const selfExe = "/proc/self/exe"

var roles = map[string]func(args []byte) int{
	"watchdog": watchdog,
	"keeper":   keeper,
	"starter":  serveStarter,
	"spare":    spare,
	"enter":    enter,
	"nsinit":   nsInit,
	"mirror":   mirror,
	"probe":    func([]byte) int { return 0 },
}

// complain is for what nobody else can be told.
func complain(format string, v ...any) {
	fmt.Fprintf(os.Stderr, "custody: "+format+"\n", v...)
}

// mirror ends with the wait status it was given.
func mirror(args []byte) int {
	var status uint32
	if err := json.Unmarshal(args, &status); err != nil {
		return 125
	}
	ws := syscall.WaitStatus(status)
	if !ws.Signaled() {
		return ws.ExitStatus()
	}
	Raise(ws.Signal())
	return 128 + int(ws.Signal())
}

// mirrors says if a process ended as a wait status says. It leaves no core dump.
func mirrors(state *os.ProcessState, status uint32) bool {
	got, ok := state.Sys().(syscall.WaitStatus)
	want := syscall.WaitStatus(status)
	switch {
	case !ok:
		return false
	case want.Signaled():
		return got.Signaled() && got.Signal() == want.Signal() || got.ExitStatus() == 128+int(want.Signal())
	}
	return got.Exited() && got.ExitStatus() == want.ExitStatus()
}

// Raise ends this process by a signal to itself, without a core dump. It
// returns if the signal doesn't end us (PID 1, or an ignored one).
func Raise(sig syscall.Signal) {
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if os.Getpid() == 1 {
		return
	}
	signal.Reset(sig)
	resetSignal(sig)
	var set unix.Sigset_t
	unix.PthreadSigmask(unix.SIG_SETMASK, &set, nil)
	// Our own thread group: no number of anybody else is involved.
	unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
}
