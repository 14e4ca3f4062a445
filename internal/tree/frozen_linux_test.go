// A process that KILL does not end, and the way back out of that.

package tree

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestFrozenWriter(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(t.TempDir(), "frozen")
	fs := run(t, 2, "frozen-fs", "-dir", dir, "-life", "6s")
	w := run(t, 2, "d-writer", "-dir", dir)
	writer := w.role("writer", 0)
	until(t, "the writer waits", func() bool { return taskState(writer.PID) == "D" })
	fd, err := unix.PidfdOpen(writer.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if ends(fd, 200*time.Millisecond) {
		t.Error("KILL ended it at once")
	}
	fs.cmd.Process.Kill() // the keeper thaws
	if !ends(fd, 5*time.Second) {
		t.Error("it outlived the thaw")
	}
	until(t, "nothing is left of the file system", func() bool {
		_, err := os.Stat(dir + ".image")
		return os.IsNotExist(err) && gone(fs.role("keeper", 0).PID)
	})
}

// taskState finds the thread of a process that waits in the kernel, if any.
func taskState(pid int) string {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		if s := b[bytes.LastIndexByte(b, ')')+1:]; bytes.HasPrefix(s, []byte(" D ")) {
			return "D"
		}
	}
	return ""
}
