package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
)

// A shell hands a launch every descriptor it has open. A command that closes
// them is rid of them: no helper above it holds the lock or the pipe of whoever
// called start.
func TestHelpersHoldNothingOfTheCaller(t *testing.T) {
	tmp := t.TempDir()
	dir, name, lock := filepath.Join(tmp, "state"), filepath.Join(tmp, "custody"), filepath.Join(tmp, "lock")
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, name) // by this name the test binary plays custody
	}
	if err != nil {
		t.Fatal(err)
	}
	defer endAll(dir)
	// Numbers that keeper and spare use for files of their own, and others.
	for _, fd := range []string{"3", "5", "6", "9"} {
		t.Run("descriptor "+fd, func(t *testing.T) {
			f, err := os.Create(lock)
			if err == nil {
				err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
			}
			if err != nil {
				t.Fatal(err)
			}
			launch := "web" + fd
			inner := fmt.Sprintf(`exec %s>&-; exec "$@"`, fd)
			argv := append([]string{"-c", `exec ` + fd + `<&0 <&-; exec "$@"`, "sh", name, "--dir", dir, "start", "--name", launch, "--",
				"sh", "-c", inner, "sh"}, tree.Command("sleep", "-life", "60s")...)
			c := exec.Command("sh", argv...)
			c.Stdin = f // the lock comes down as this descriptor
			out, err := c.CombinedOutput()
			f.Close()
			if err != nil {
				t.Fatalf("start: %v %s", err, out)
			}
			again, err := os.Open(lock)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			for end := time.Now().Add(15 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				err := syscall.Flock(int(again.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
				if err == nil {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the caller's lock is held though the command closed it: %v\n%s", err, holding(lock))
				}
			}
			st, err := custody.StatusOf(context.Background(), launch, custody.ListOptions{Dir: dir})
			if err != nil || st.State != custody.StateRunning {
				t.Errorf("the launch: %+v %v", st, err)
			}
		})
	}
}

// holding names the processes that have a file open.
func holding(path string) string {
	s := ""
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == path {
			argv, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(l)), "cmdline"))
			s += fmt.Sprintf("%s %q\n", l, argv)
		}
	}
	return s
}
