package reap

// The test binary plays every program of these tests. A reaper and its herd
// live in a PID namespace of their own, as its PID 1 or below it, which ends
// with them.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const roleVar = "CUSTODY_REAP_ROLE"

// roles are played by the main goroutine on the main thread. What one returns
// fails the test.
var roles = map[string]func(order) error{}

// order tells a role what to do.
type order struct {
	Role     string
	Below    bool // a PID 1 stands above the role, so that it is a subreaper
	Patience time.Duration

	Orphans  int  // made by shells
	Commands int  // run by os/exec alone, from any thread
	Owned    int  // run by Run
	Main     int  // run by the main thread
	Ended    int  // started by threads that end
	Stress   bool // of the garbage collector
}

// init locks the main goroutine of a role to the main thread.
func init() {
	if os.Getenv(roleVar) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	text := os.Getenv(roleVar)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := play(text); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if os.Getpid() == 1 {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			return fmt.Errorf("mount /proc: %w", err)
		}
		if o.Below {
			cmd := exec.Command("/proc/self/exe")
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			return cmd.Run()
		}
	}
	return roles[o.Role](o)
}

// inNamespace plays a role in a PID namespace of its own, for two minutes at
// most, and returns what it printed.
func inNamespace(t *testing.T, o order, env ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(append(os.Environ(), roleVar+"="+string(text)), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // the death of the starting thread is what Pdeathsig means
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", text, err, out.String())
	}
	return out.String()
}

// zombies counts the dead children of every thread of this process.
func zombies() (n int, err error) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, pid := range strings.Fields(string(b)) {
			stat, _ := os.ReadFile("/proc/" + pid + "/stat")
			if i := bytes.LastIndexByte(stat, ')'); i > 0 && bytes.HasPrefix(stat[i:], []byte(") Z")) {
				n++
			}
		}
	}
	return n, err
}

// eventually waits up to a minute for what takes a moment.
func eventually(what string, ok func() bool) error {
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within a minute: %s", what)
		}
	}
	return nil
}
