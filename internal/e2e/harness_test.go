//go:build linux

// A rig: a state directory, an owner of its own at a chosen level, and the ways
// to end it. Whatever a test leaves is ended by handle.

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/tree"
	"golang.org/x/sys/unix"
)

// grace is the time between TERM and KILL in these tests; plan is the stop plan.
const grace = time.Second

var plan = []string{"TERM:1s", "KILL:5s"}

// builtIn is where the custody binary is built, once.
var builtIn string

var custodyBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "custody-e2e-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	out := filepath.Join(dir, "custody")
	cmd := exec.Command("go", "build", "-o", out, "github.com/custody-project/custody/cmd/custody")
	if b, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build custody: %w: %s", err, b)
	}
	return out, nil
})

// level is a containment that a test asks for, by a kept or direct launch and
// by what is taken away.
type level struct {
	name    string
	kept    bool
	without string
	want    string // what the launch must say of itself
}

var (
	group        = level{"group", false, "cgroup", "group"}
	lineage      = level{"lineage", true, "cgroup", "lineage"}
	cgroupDirect = level{"cgroup-direct", false, "", "cgroup"}
	cgroupKept   = level{"cgroup-kept", true, "", "cgroup"}
	levels       = []level{group, lineage, cgroupDirect, cgroupKept}
)

// trigger is the event that makes a tree end.
type trigger string

const (
	stopped    trigger = "stop"         // on the live handle
	ownerDied  trigger = "owner-killed" // its watchdog or keeper lives
	bothSwept  trigger = "both-killed-sweep"
	bothOpened trigger = "both-killed-open" // and the next owner opens
)

var triggers = []trigger{stopped, ownerDied, bothSwept, bothOpened}

// possible are the levels that can be had here: an ordinary user mostly has no
// cgroup to write to.
func possible(t *testing.T, ls []level) []level {
	t.Helper()
	_, err := host.CgroupBase()
	if err == nil || os.Geteuid() == 0 {
		return ls
	}
	var out []level
	for _, lv := range ls {
		if lv.want != "cgroup" {
			out = append(out, lv)
		}
	}
	t.Logf("without level cgroup: %v", err)
	return out
}

// each runs f at each level.
func each(t *testing.T, ls []level, f func(t *testing.T, r *rig)) {
	t.Parallel()
	for _, lv := range possible(t, ls) {
		t.Run(lv.name, func(t *testing.T) {
			t.Parallel()
			f(t, newRig(t, lv))
		})
	}
}

// eachTrigger runs f for each level and trigger.
func eachTrigger(t *testing.T, ls []level, ts []trigger, f func(t *testing.T, r *rig, by trigger)) {
	t.Parallel()
	for _, lv := range possible(t, ls) {
		for _, tr := range ts {
			t.Run(lv.name+"/"+string(tr), func(t *testing.T) {
				t.Parallel()
				f(t, newRig(t, lv), tr)
			})
		}
	}
}

type rig struct {
	t     *testing.T
	lv    level
	state string
	tmp   string // where the owner makes temporary directories
	dir   string // for everything else
	bin   string // plays the trees and the owner
	env   []string
	hasty bool // trees take their shape at once
}

func newRig(t *testing.T, lv level) *rig {
	t.Helper()
	root, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	r := &rig{t: t, lv: lv, bin: self(), state: filepath.Join(root, "state"), tmp: filepath.Join(root, "tmp"), dir: filepath.Join(root, "dir")}
	for _, d := range []string{r.state, r.tmp, r.dir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// file names a file of the rig.
func (r *rig) file(name string) string { return filepath.Join(r.dir, name) }

// prog is the argument list of a tree program whose processes announce
// themselves in the rig's file pids.
func (r *rig) prog(name string, args ...string) []string {
	return r.progIn("pids", name, args...)
}

func (r *rig) progIn(pids, name string, args ...string) []string {
	argv := tree.Command(name, append([]string{"-pids", r.file(pids), "-life", "60s"}, args...)...)
	argv[0] = r.bin
	if r.lv == group && !r.hasty {
		// At this level nothing but the mark holds a member that left group
		// and session, and on a busy machine a direct launch is marked a
		// moment after it began: docs of host.MarkBelow.
		argv = append([]string{"/bin/sh", "-c", onceMarked + `exec "$@"`, "sh"}, argv...)
	}
	return argv
}

// onceMarked begins a script that goes on when its process bears the mark of
// its launch. A busy machine may take its time to come back to the owner, which
// marks a direct launch right after the fork.
const onceMarked = `i=0
while [ $i -lt 400 ] && ! grep -Eq '^Max realtime timeout +[4-9][0-9]{18} ' /proc/$$/limits; do
	sleep 0.05; i=$((i+1))
done
`

func (r *rig) environ() []string {
	return append(os.Environ(), append(r.env, "TMPDIR="+r.tmp, "CUSTODY_DEBUG_WITHOUT="+r.lv.without)...)
}

// client talks to an owner program.
type client struct {
	r      *rig
	cmd    *exec.Cmd
	proc   handle // the owner program itself
	in     io.WriteCloser
	opened answer

	mu   sync.Mutex
	n    int
	wait map[int]chan answer
	dead chan struct{}
}

// owner starts an owner program.
func (r *rig) owner() *client { return r.ownerOf(opening{}) }

func (r *rig) ownerOf(op opening) *client {
	r.t.Helper()
	return r.ownerBy(op, nil, nil)
}

// ownerBy starts an owner program below another one, if before is given.
func (r *rig) ownerBy(op opening, before []string, set func(*exec.Cmd)) *client {
	r.t.Helper()
	op.Dir = r.state
	if op.Scope == "" {
		op.Scope = "e2e"
	}
	j, _ := json.Marshal(op)
	argv := append(append([]string{}, before...), r.bin, "e2e:owner", string(j))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = r.environ()
	cmd.Stderr = os.Stderr
	if set != nil {
		set(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	c := &client{r: r, cmd: cmd, in: in, wait: map[int]chan answer{}, dead: make(chan struct{})}
	if err := startFresh(cmd); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		in.Close()
		c.proc.signal(9)
		c.proc.close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	opened := make(chan answer, 1)
	go func() {
		defer close(c.dead)
		dec := json.NewDecoder(out)
		var a answer
		if dec.Decode(&a) != nil {
			return
		}
		opened <- a
		for {
			var a answer
			if dec.Decode(&a) != nil {
				return
			}
			c.mu.Lock()
			ch := c.wait[a.N]
			c.mu.Unlock()
			ch <- a
		}
	}()
	select {
	case c.opened = <-opened:
	case <-time.After(30 * time.Second):
		r.t.Fatal("the owner did not open")
	}
	if c.opened.Err != "" {
		r.t.Fatalf("open: %s", c.opened.Err)
	}
	fd, err := unix.PidfdOpen(c.opened.PID, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	c.proc = handle{tree.Proc{Role: "owner", PID: c.opened.PID}, fd}
	return c
}

// startFresh starts a program that may have been written a moment ago: while
// another test forks, the child holds our descriptor of it for a moment, and
// the kernel refuses to execute a file that is open for writing.
func startFresh(cmd *exec.Cmd) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := cmd.Start()
		if !errors.Is(err, unix.ETXTBSY) || time.Now().After(end) {
			return err
		}
	}
}

// later asks without waiting for the answer.
func (c *client) later(q request) <-chan answer {
	ch := make(chan answer, 1)
	c.mu.Lock()
	c.n++
	q.N = c.n
	c.wait[q.N] = ch
	c.mu.Unlock()
	b, _ := json.Marshal(q)
	if _, err := c.in.Write(append(b, '\n')); err != nil {
		c.r.t.Errorf("ask the owner: %v", err)
	}
	return ch
}

// ask asks and waits for the answer.
func (c *client) ask(q request) answer {
	c.r.t.Helper()
	return c.await(c.later(q), q.Do)
}

func (c *client) await(ch <-chan answer, what string) answer {
	c.r.t.Helper()
	select {
	case a := <-ch:
		return a
	case <-c.dead:
		c.r.t.Fatalf("%s: the owner died", what)
	case <-time.After(60 * time.Second):
		c.proc.signal(unix.SIGQUIT) // says where it stands
		c.proc.ends(5 * time.Second)
		c.r.t.Fatalf("%s: no answer", what)
	}
	return answer{}
}

// started is a launch of an owner program.
type started struct {
	c  *client
	n  int
	id string
	answer
}

// start starts a launch at the rig's level.
func (c *client) start(sp spec) *started {
	c.r.t.Helper()
	sp.Kept = sp.Kept || c.r.lv.kept
	if sp.Phases == nil && !sp.DefaultPlan {
		sp.Phases = plan
	}
	a := c.ask(request{Do: "start", Spec: sp})
	if a.Err != "" {
		c.r.t.Fatalf("start %q: %s", sp.Args, a.Err)
	}
	if want := c.r.lv.want; want != "" && a.Level != want {
		c.r.t.Fatalf("level %s, want %s", a.Level, want)
	}
	return &started{c, a.Count, a.ID, a}
}

func (l *started) ask(q request) answer {
	l.c.r.t.Helper()
	q.Launch = l.n
	return l.c.ask(q)
}

// record is the path of the launch's record.
func (l *started) record() string {
	return filepath.Join(l.c.r.state, "e2e", l.c.opened.ID, l.id+".json")
}

// recordKept and recordEnded are the words of the cases.
func (l *started) recordKept(when string) {
	l.c.r.t.Helper()
	if _, err := os.Stat(l.record()); err != nil {
		l.c.r.t.Errorf("%s: record is not kept: %v", when, err)
	}
}

func (l *started) recordEnded(when string) {
	l.c.r.t.Helper()
	until(l.c.r.t, when+": record ends", func() bool {
		_, err := os.Stat(l.record())
		return os.IsNotExist(err)
	})
}

// kill ends the owner program by KILL and waits for its end.
func (c *client) kill() {
	c.proc.signal(9)
	c.proc.ends(10 * time.Second)
}

// killWithHelpers ends the owner and its helpers such that no helper sees the
// owner's end.
func (c *client) killWithHelpers() {
	c.r.t.Helper()
	hs := helpersOf(c.r.t, c.proc.PID)
	for _, h := range hs {
		h.signal(19)
	}
	// From here on they see nothing. Until the signal was taken by one thread
	// the others go on, and on a busy machine that may be a while.
	for _, h := range hs {
		until(c.r.t, "the helper has stopped", func() bool { return h.ended() || h.stopped() })
	}
	c.kill()
	for _, h := range hs {
		h.signal(9)
		h.ends(10 * time.Second)
		h.close()
	}
}

// pull makes the trigger happen and returns the moment from which the time to
// GONE is counted.
func (l *started) pull(by trigger) time.Time {
	t, c := l.c.r.t, l.c
	t.Helper()
	since := time.Now()
	switch by {
	case stopped:
		a := l.ask(request{Do: "stop"})
		if a.Err != "" {
			t.Errorf("stop: %s", a.Err)
		} else if r := a.Results[0]; r.Outcome != "gone" || r.Verdict != custody.Gone {
			t.Errorf("stop: %+v", r)
		}
	case ownerDied:
		c.kill()
	case bothSwept:
		c.killWithHelpers()
		since = time.Now()
		rep := c.r.sweep()
		l.sweptIn(rep)
	case bothOpened:
		c.killWithHelpers()
		since = time.Now()
		l.sweptIn(*c.r.owner().opened.Swept)
	}
	return since
}

// sweptIn says that a sweep ended the launch.
func (l *started) sweptIn(rep custody.SweepReport) {
	l.c.r.t.Helper()
	for _, r := range rep.Launches {
		if r.ID.String() == l.id {
			if r.Outcome != "gone" {
				l.c.r.t.Errorf("sweep: %+v", r)
			}
			if h := r.StopHook; h != nil && h.State != custody.StopHookDone {
				l.c.r.t.Errorf("stop hook %s: it said %q", h, h.Output)
			}
			return
		}
	}
	l.c.r.t.Errorf("sweep did not see launch %s: %+v", l.id, rep)
}

// custody runs the command with the rig's state directory.
func (r *rig) custody(args ...string) (stdout string, code int) {
	r.t.Helper()
	cmd := r.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	if errs.Len() > 0 {
		r.t.Logf("custody %s: %s", strings.Join(args, " "), strings.TrimSpace(errs.String()))
	}
	return out.String(), exitCode(cmd)
}

func (r *rig) command(args ...string) *exec.Cmd {
	r.t.Helper()
	bin, err := custodyBinary()
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	r.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, bin, append([]string{args[0], "--dir", r.state}, args[1:]...)...)
	cmd.Env = r.environ()
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGQUIT) } // says where it stands
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// exitCode is the end of a command as a shell shows it.
func exitCode(cmd *exec.Cmd) int {
	if cmd.ProcessState == nil {
		return -1
	}
	if sig := signalOf(cmd); sig != 0 {
		return 128 + int(sig)
	}
	return cmd.ProcessState.ExitCode()
}

func (r *rig) sweep(args ...string) custody.SweepReport {
	r.t.Helper()
	out, code := r.custody(append([]string{"sweep", "--json"}, args...)...)
	var rep custody.SweepReport
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		r.t.Fatalf("sweep: exit %d, %v: %s", code, err, out)
	}
	return rep
}

// status asks for one launch.
func (r *rig) status(launch string) custody.Status {
	r.t.Helper()
	out, code := r.custody("status", "--json", launch)
	var st custody.Status
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		r.t.Fatalf("status: exit %d, %v: %s", code, err, out)
	}
	return st
}

func (r *rig) ls() []custody.LaunchInfo {
	r.t.Helper()
	out, code := r.custody("ls", "--json")
	var l []custody.LaunchInfo
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		r.t.Fatalf("ls: exit %d, %v: %s", code, err, out)
	}
	return l
}

// noTemp says that no temporary directory of a launch is left.
func (r *rig) noTemp() {
	r.t.Helper()
	until(r.t, "temporary directories are gone", func() bool {
		left, err := os.ReadDir(r.tmp)
		return err == nil && len(left) == 0
	})
}

// until waits for a state of things.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func self() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// signals returns the lines of a siglog, without what the runtime sends itself
// (URG, caught before it is let go of again) and the ends of children.
func signals(t *testing.T, file string) []string {
	t.Helper()
	var out []string
	for _, line := range lines(t, file) {
		if !strings.HasSuffix(line, " URG") && !strings.HasSuffix(line, " CHLD") {
			out = append(out, line)
		}
	}
	return out
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
