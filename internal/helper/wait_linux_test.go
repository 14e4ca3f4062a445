package helper

import (
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A child that is killed between the look at its stop and the taking note of
// it keeps its exit status for the next look.
func TestStopTakesNoExit(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	defer c.Process.Kill()
	c.Process.Signal(syscall.SIGSTOP)
	seen := func(flags, code int) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			info, err := waitid(flags | unix.WNOHANG | unix.WNOWAIT)
			if err != nil || time.Now().After(end) {
				t.Fatalf("waitid: %+v, %v", info, err)
			}
			if int(info.pid) == pid && int(info.code) == code {
				return
			}
		}
	}
	seen(unix.WSTOPPED, cldStopped)
	c.Process.Signal(syscall.SIGKILL)
	seen(unix.WEXITED, 2) // CLD_KILLED
	takeStop(pid)
	var ws unix.WaitStatus
	if got, err := unix.Wait4(pid, &ws, 0, nil); got != pid || err != nil || ws.Signal() != unix.SIGKILL {
		t.Errorf("wait: %d, %v, status %#x", got, err, ws)
	}
}
