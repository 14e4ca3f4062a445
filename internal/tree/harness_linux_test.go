// Running a tree under test, looking at it through /proc, and ending it for
// certain: by pidfd, after a comparison of the identity it announced.

package tree

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// running is a tree that has taken its shape.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	file string
	all  []Proc
}

// run starts a program and waits for n lines.
func run(t *testing.T, n int, name string, args ...string) *running {
	t.Helper()
	cmd, file := command(t, name, args...)
	r := &running{t: t, cmd: cmd, file: file}
	r.start(n)
	return r
}

func (r *running) start(n int) {
	r.t.Helper()
	// The orphans of the tree come to this process, which collects them.
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(r.end)
	var err error
	if r.all, err = Wait(soon(r.t), r.file, n); err != nil {
		r.t.Fatal(err)
	}
}

// end kills what is left of the tree until there is nothing left.
func (r *running) end() {
	r.cmd.Process.Kill()
	r.cmd.Wait()
	for range 3 { // a member may have started another meanwhile
		procs, _ := ReadPids(r.file)
		for _, p := range procs {
			killExactly(p)
		}
		for _, p := range procs {
			unix.Wait4(p.PID, nil, unix.WNOHANG, nil)
		}
	}
}

// killExactly kills a process if it is still the one that announced itself,
// and waits until it has ended.
func killExactly(p Proc) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	start, err := startTicks(p.PID)
	if err != nil || start != p.Start || pidfdInode(fd) != p.Inode {
		return
	}
	unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	ends(fd, 5*time.Second)
}

// ends tells whether the process of a pidfd ends within a time.
func ends(fd int, within time.Duration) bool {
	for end := time.Now().Add(within); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
			int(max(time.Until(end), 0)/time.Millisecond))
		if err != unix.EINTR {
			return n == 1
		}
	}
}

// role returns the i-th process of a role.
func (r *running) role(name string, i int) Proc {
	r.t.Helper()
	for _, p := range r.all {
		if p.Role == name {
			if i == 0 {
				return p
			}
			i--
		}
	}
	r.t.Fatalf("no %s among %v", name, r.all)
	return Proc{}
}

// look is what /proc says now.
type look struct {
	state           string
	ppid, pgid, sid int
}

func (r *running) look(p Proc) look {
	r.t.Helper()
	f, err := statFields(p.PID)
	if err != nil {
		r.t.Fatalf("%s: %v", p.Role, err)
	}
	num := func(i int) int { n, _ := strconv.Atoi(f[i]); return n }
	return look{f[0], num(1), num(2), num(3)}
}

// until waits for a state of things that takes a moment.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func gone(pid int) bool {
	f, err := statFields(pid)
	return err != nil || f[0] == "Z"
}

func procFile(t *testing.T, pid int, name string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ignores tells whether a process is deaf to a signal.
func ignores(t *testing.T, pid int, sig unix.Signal) bool {
	for line := range strings.Lines(procFile(t, pid, "status")) {
		if mask, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			bits, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return bits&(1<<(sig-1)) != 0
		}
	}
	return false
}

func needRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}
