//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"golang.org/x/sys/unix"
)

// The service under test is the built program, in a process of its own, so
// that it can be killed as the kernel or an operator would. The test binary
// also plays "somebody else": another process, of the service's own user, that
// lists or sweeps.

const (
	listEnv  = "BROWSERPOOL_TEST_LIST"  // state directory: print its launches, end
	sweepEnv = "BROWSERPOOL_TEST_SWEEP" // state directory: sweep every 100 ms until stdin ends
	nobody   = 65534
)

var (
	rounds = flag.Int("rounds", 1, "times to kill the service where the time is measured")
	settle = flag.Duration("settle", time.Second, "time from warm to kill: browsers go on starting helpers for a while")
	bin    string // directory that every user can read, with the programs
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(listEnv); dir != "" {
		playList(dir)
		return
	}
	if dir := os.Getenv(sweepEnv); dir != "" {
		playSweep(dir)
		return
	}
	flag.Parse()
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "browserpool-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(bin)
	os.Chmod(bin, 0o755)
	out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "browserpool"), ".").CombinedOutput()
	if err != nil {
		fmt.Printf("build: %v\n%s", err, out)
		return 1
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "other"), self, 0o755)
	}
	if err != nil {
		panic(err)
	}
	return m.Run()
}

func playList(dir string) {
	l, err := custody.List(context.Background(), custody.ListOptions{Dir: dir})
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func playSweep(dir string) {
	end := make(chan bool)
	go func() { bufio.NewReader(os.Stdin).ReadByte(); close(end) }()
	for n := 0; ; n++ {
		rep, err := custody.Sweep(context.Background(), custody.SweepOptions{Dir: dir})
		if err != nil || len(rep.Launches) > 0 {
			fmt.Printf("sweep touched %+v %v\n", rep.Launches, err)
		}
		select {
		case <-end:
			fmt.Printf("sweeps %d\n", n+1)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// setup is how a service is run.
type setup struct {
	browser string
	n       int
	uid     int
	without string // mechanisms switched off
	direct  bool
	level   custody.Level // wanted; empty: any
	dir     string        // state directory of an earlier service
	home    string
}

func (s setup) name() string {
	name := fmt.Sprintf("%s-%d", s.browser, s.n)
	switch {
	case s.uid != os.Geteuid():
		name += "-ordinary-user"
	case s.without != "":
		name += "-without-" + s.without
	case s.direct:
		name += "-direct"
	}
	return name
}

// possible skips what only root can do.
func (s setup) possible(t *testing.T) {
	if os.Geteuid() != 0 && (s.uid != os.Geteuid() || s.direct) {
		t.Skip("needs root: to become another user, and for a cgroup")
	}
}

type service struct {
	setup
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	done chan struct{} // its log has ended

	mu  sync.Mutex
	log []string
}

// need skips where the browser is not installed, but never in CI.
func need(t *testing.T, browser string) {
	t.Helper()
	if _, err := exec.LookPath(browser); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is needed: apt-get install %[1]s", browser)
		}
		t.Skipf("%s is not installed: apt-get install %[1]s", browser)
	}
}

// run starts a service and waits until it serves.
func run(t *testing.T, s setup) *service {
	t.Helper()
	need(t, s.browser)
	if s.dir == "" {
		s.dir, s.home = private(t, s.uid), private(t, s.uid)
	}
	v := &service{setup: s, t: t, done: make(chan struct{})}
	v.cmd = v.as(filepath.Join(bin, "browserpool"), "-browser", s.browser, "-n", strconv.Itoa(s.n), "-dir", s.dir, fmt.Sprintf("-direct=%v", s.direct))
	stderr, err := v.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	serving := make(chan string, 1)
	go func() {
		defer close(v.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			v.mu.Lock()
			v.log = append(v.log, lines.Text())
			v.mu.Unlock()
			if _, at, ok := strings.Cut(lines.Text(), "serving "); ok {
				serving <- at
			}
		}
	}()
	t.Cleanup(func() {
		v.cmd.Process.Kill()
		v.wait()
		until(t, "the end of what the service left", 20*time.Second, func() bool {
			v.sweeper().Run() // one sweep: its input has ended
			return len(v.list()) == 0
		})
		if t.Failed() {
			t.Logf("log of the service:\n%s", strings.Join(v.lines(), "\n"))
		}
	})
	select {
	case v.url = <-serving:
	case <-v.done:
		t.Fatalf("the service ended: %s", strings.Join(v.lines(), "\n"))
	case <-time.After(30 * time.Second):
		t.Fatal("the service does not serve")
	}
	return v
}

// as prepares a program run as the service's user.
func (v *service) as(path string, arg ...string) *exec.Cmd {
	c := exec.Command(path, arg...)
	c.Dir = "/"
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "XDG_") {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, "HOME="+v.home, "CUSTODY_DEBUG_WITHOUT="+v.without)
	if v.uid != os.Geteuid() {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(v.uid), Gid: uint32(v.uid)}}
	}
	return c
}

// private makes a directory for one user. It is no t.TempDir, which other
// users can't reach.
func private(t *testing.T, uid int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "browserpool-test-")
	if err == nil {
		err = os.Chown(dir, uid, -1)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// wait reaps the service.
func (v *service) wait() error {
	<-v.done
	return v.cmd.Wait()
}

func (v *service) lines() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string{}, v.log...)
}

func until(t *testing.T, what string, most time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(most); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain for %s", most, what)
		}
	}
}

func (v *service) workers() []worker {
	v.t.Helper()
	res, err := http.Get(v.url + "/workers")
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	var ws []worker
	if err := json.NewDecoder(res.Body).Decode(&ws); err != nil {
		v.t.Fatal(err)
	}
	return ws
}

// warm waits until every browser answers at its endpoint.
func (v *service) warm() []worker {
	v.t.Helper()
	var ws []worker
	until(v.t, fmt.Sprintf("%d warm browsers", v.n), time.Minute, func() bool {
		ws = v.workers()
		return len(ws) == v.n
	})
	for _, w := range ws {
		if err := answers(w.Endpoint + browsers[v.browser].path); err != nil {
			v.t.Errorf("worker %d: %v", w.PID, err)
		}
		if v.level != "" && w.Level != v.level {
			v.t.Errorf("worker %d: level %s, want %s", w.PID, w.Level, v.level)
		}
	}
	return ws
}

// answers asks for a WebSocket.
func answers(endpoint string) error {
	at := strings.TrimPrefix(endpoint, "ws://")
	host, path, _ := strings.Cut(at, "/")
	c, err := net.DialTimeout("tcp", host, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2F5aW5nIGdvb2RieWUuLg==\r\n\r\n", path, host)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && !strings.Contains(line, " 101 ") {
		err = fmt.Errorf("%s says %q", endpoint, line)
	}
	return err
}

// list returns the recorded launches, as the service's user sees them.
func (v *service) list() []custody.LaunchInfo {
	v.t.Helper()
	c := v.as(filepath.Join(bin, "other"))
	c.Env = append(c.Env, listEnv+"="+v.dir)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	var l custody.Listing
	if err == nil {
		err = json.Unmarshal(out, &l)
	}
	if err != nil {
		v.t.Errorf("list: %v %s", err, stderr.String())
	}
	return l.Launches
}

// sweeper prepares a process that sweeps until its input ends.
func (v *service) sweeper() *exec.Cmd {
	c := v.as(filepath.Join(bin, "other"))
	c.Env = append(c.Env, sweepEnv+"="+v.dir)
	return c
}

// helpers returns the service's keepers and its watchdog.
func (v *service) helpers() []int {
	var pids []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", v.cmd.Process.Pid))
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		for s := range strings.FieldsSeq(string(b)) {
			line, _ := os.ReadFile("/proc/" + s + "/cmdline")
			if strings.HasPrefix(string(line), "custody-") {
				pid, _ := strconv.Atoi(s)
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// watch holds every process of some trees by its handle, and their
// directories by their names.
type watch struct {
	t    *testing.T
	ids  []string
	pids map[int]int // by pidfd
	main map[int]bool
	dirs []string
}

func (v *service) watch(launches []custody.LaunchInfo) *watch {
	v.t.Helper()
	w := &watch{t: v.t, pids: map[int]int{}, main: map[int]bool{}}
	for _, l := range launches {
		w.ids = append(w.ids, l.ID.String())
		w.main[l.PID] = true
		for _, d := range l.Dirs {
			w.dirs = append(w.dirs, filepath.Dir(d))
		}
		for _, m := range l.Members {
			if fd, err := unix.PidfdOpen(m.PID, 0); err == nil {
				w.pids[fd] = m.PID
			}
		}
		if len(l.Members) < 4 || len(l.Dirs) != 2 {
			v.t.Errorf("launch %s: %d members, directories %q: that is no browser's tree", l.ID, len(l.Members), l.Dirs)
		}
	}
	v.t.Cleanup(func() {
		for fd := range w.pids {
			unix.Close(fd)
		}
	})
	return w
}

// alive returns who has not ended, waiting at most d for a change.
func (w *watch) alive(d time.Duration) map[int]int {
	var fds []unix.PollFd
	for fd := range w.pids {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	unix.Poll(fds, int(d.Milliseconds()))
	live := map[int]int{}
	for _, p := range fds {
		if p.Revents == 0 {
			live[int(p.Fd)] = w.pids[int(p.Fd)]
		}
	}
	return live
}

// fd returns the handle of a process.
func (w *watch) fd(pid int) int {
	for fd, p := range w.pids {
		if p == pid {
			return fd
		}
	}
	w.t.Fatalf("process %d is not watched", pid)
	return -1
}

// holdEscaped stops the helpers that left their browser's process group, so
// that they can't end by themselves when the browser does.
func (w *watch) holdEscaped() {
	w.t.Helper()
	n := 0
	for fd, pid := range w.pids {
		if pgid, err := unix.Getpgid(pid); err == nil && !w.main[pgid] {
			if err := unix.PidfdSendSignal(fd, unix.SIGSTOP, nil, 0); err == nil {
				n++
			}
		}
	}
	if n < len(w.ids) {
		w.t.Errorf("%d helpers outside the process groups of %d browsers: the example is not what it was made for", n, len(w.ids))
	}
}

// present returns the directories that exist.
func (w *watch) present() []string {
	var ds []string
	for _, d := range w.dirs {
		if _, err := os.Lstat(d); err == nil {
			ds = append(ds, d)
		}
	}
	return ds
}

// gone waits until every process has ended and every directory is deleted, and
// returns how long after start that was.
func (w *watch) gone(start time.Time, most time.Duration) (processes, dirs time.Duration) {
	w.t.Helper()
	for processes == 0 || dirs == 0 {
		left := w.present()
		live := w.alive(0)
		if len(live) == 0 && processes == 0 {
			processes = time.Since(start)
		}
		if len(left) == 0 && dirs == 0 {
			dirs = time.Since(start)
		}
		// Looked at in this order: who lives now lived when the directory was
		// seen to be missing.
		if len(left) == 0 && len(live) > 0 {
			w.t.Fatalf("the directories were deleted under %v", live)
		}
		if time.Since(start) > most {
			w.t.Fatalf("%v after: processes %v live, directories %q", most, live, left)
		}
		time.Sleep(time.Millisecond)
	}
	return processes, dirs
}

// traces returns the processes that carry a launch's id in arguments or
// environment: also such as no list of custody's named.
func (w *watch) traces() []string {
	var found []string
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		args, _ := os.ReadFile(p + "/cmdline")
		env, _ := os.ReadFile(p + "/environ")
		for _, id := range w.ids {
			if bytes.Contains(args, []byte(id)) || bytes.Contains(env, []byte(id)) {
				found = append(found, p+" "+strings.ReplaceAll(string(args), "\x00", " "))
			}
		}
	}
	return found
}

// nothing checks that no trace of the trees is left, nor any record.
func (v *service) nothing(w *watch) {
	v.t.Helper()
	until(v.t, "the end of every process that carries a launch's id", 3*time.Second, func() bool { return len(w.traces()) == 0 })
	until(v.t, "the end of every record", 3*time.Second, func() bool { return len(records(v.dir)) == 0 })
	if d := w.present(); len(d) > 0 {
		v.t.Errorf("directories came back: %q", d)
	}
}

func records(dir string) []string {
	var found []string
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".json") {
			found = append(found, path)
		}
		return nil
	})
	return found
}
