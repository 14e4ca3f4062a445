package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
)

// What waits for a launch ends with the program that it waits for, and the launch
// goes on.
func TestWaitEndsWithItsParent(t *testing.T) {
	tmp := t.TempDir()
	dir, name := filepath.Join(tmp, "state"), filepath.Join(tmp, "custody")
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, name) // by this name the test binary plays custody
	}
	if err != nil {
		t.Fatal(err)
	}
	defer endAll(dir)
	argv := append([]string{"--dir", dir, "start", "--name", "web", "--"}, tree.Command("sleep", "-life", "60s")...)
	if out, err := exec.Command(name, argv...).CombinedOutput(); err != nil {
		t.Fatalf("start: %v %s", err, out)
	}
	for _, flags := range [][]string{{"wait"}, {"wait", "--no-parent"}, {"logs", "--follow"}, {"ready", "log:never"}} {
		verb, last := flags[0], flags[len(flags)-1]
		said, err := os.Create(filepath.Join(tmp, "said"+verb+last[:1]))
		if err != nil {
			t.Fatal(err)
		}
		// sh is the parent; it says which child it has.
		sh := exec.Command("sh", "-c", `"$@" & echo $!; wait`, "sh", name, "--dir", dir, verb, "web")
		sh.Args = append(sh.Args, flags[1:]...)
		sh.Stderr = said
		out, err := sh.StdoutPipe()
		if err == nil {
			err = sh.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 16)
		n, err := out.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
		if err != nil {
			t.Fatal(err)
		}
		waiter, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer waiter.Kill()
		leader, err := custody.StatusOf(t.Context(), "web", custody.ListOptions{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the waiting", func() bool { return last == "--no-parent" && holds(pid, leader.PID) || holds(pid, sh.Process.Pid) })
		sh.Process.Kill()
		sh.Wait()
		if last == "--no-parent" {
			time.Sleep(300 * time.Millisecond)
			if !holds(pid, leader.PID) {
				t.Errorf("with --no-parent it does not wait on")
			}
			continue
		}
		await(t, "a word of the parent's death", func() bool {
			b, err := os.ReadFile(said.Name())
			return err == nil && bytes.Contains(b, []byte("our parent has died"))
		})
		await(t, "the end of the waiting", func() bool {
			open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // none, also of a zombie
			return len(open) == 0
		})
	}
	if st, err := custody.StatusOf(t.Context(), "web", custody.ListOptions{Dir: dir}); err != nil || st.State != custody.StateRunning {
		t.Errorf("the launch: %+v %v", st, err)
	}
}

// holds reports whether a process has a handle of another one (a pidfd, as
// /proc/PID/fdinfo shows it).
func holds(pid, other int) bool {
	infos, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, path := range infos {
		b, _ := os.ReadFile(path)
		if strings.Contains(string(b), fmt.Sprintf("\nPid:\t%d\n", other)) {
			return true
		}
	}
	return false
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
