//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"golang.org/x/sys/unix"
)

// The controllers under test are whole programs in processes of their own, so
// that they can be killed: the one of this directory, and the one in Node,
// which takes the same flags and says the same. PostgreSQL refuses to run as
// root, so for root they run as an ordinary user. The rest is asked by the
// custody command, as anybody would.

const (
	nobody   = 65534
	password = "a test's own"
	pgbin    = "/usr/lib/postgresql/15/bin"
	guardEnv = "MODELSERVER_TEST_GUARD"    // set: end everything in a state directory when our input ends
	otherEnv = "MODELSERVER_TEST_STRANGER" // a port: listen on it until our input ends
)

var bin string // directory that every user can read, with the programs

func TestMain(m *testing.M) {
	if os.Getenv(guardEnv) != "" {
		guard()
		return
	}
	if port := os.Getenv(otherEnv); port != "" {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		fmt.Println(err)
		io.Copy(io.Discard, os.Stdin)
		if err == nil {
			l.Close()
		}
		return
	}
	os.Exit(withPrograms(m))
}

func withPrograms(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "modelserver-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(bin)
	os.Chmod(bin, 0o755)
	if _, err := os.Stat("main.go"); err != nil { // what go test is to run again for
		panic(err)
	}
	out, err := exec.Command("go", "build", "-o", bin, ".", "../../cmd/custody").CombinedOutput()
	if err != nil {
		fmt.Printf("build: %v\n%s", err, out)
		return 1
	}
	for name, from := range map[string]string{"guard": "/proc/self/exe", "controller.mjs": "../controller-node/controller.mjs"} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(bin, name), b, 0o755)
		}
		if err != nil {
			panic(err)
		}
	}
	return m.Run()
}

// guard is the end of every server that a test started: it outlives the test,
// however that ends, by the time it takes to stop what is in the state
// directory.
func guard() {
	io.Copy(io.Discard, os.Stdin)
	for range 10 {
		out, _ := exec.Command(filepath.Join(filepath.Dir(os.Args[0]), "custody"), "ls", "--json").Output()
		var ls []custody.LaunchInfo
		json.Unmarshal(out, &ls)
		ls = slices.DeleteFunc(ls, func(l custody.LaunchInfo) bool { return l.State == "ended" })
		for _, l := range ls {
			exec.Command(filepath.Join(filepath.Dir(os.Args[0]), "custody"), "stop", l.ID.String(), "--phase", "QUIT:2s", "--phase", "KILL:5s").Run()
		}
		if len(ls) == 0 {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// both runs a test for each controller.
func both(t *testing.T, f func(t *testing.T, h *host)) {
	for _, kind := range []string{"go", "node"} {
		t.Run(kind, func(t *testing.T) {
			need(t, pgbin+"/postgres", "postgresql-15")
			need(t, "psql", "postgresql-client-15")
			if kind == "node" {
				need(t, "node", "nodejs")
			}
			f(t, newHost(t, kind))
		})
	}
}

// need skips where a program is not installed, but never in CI.
func need(t *testing.T, program, pkg string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is needed: apt-get install %s", program, pkg)
		}
		t.Skipf("%s is not installed: apt-get install %s", program, pkg)
	}
}

// host is one user's state directory, and a port.
type host struct {
	t    *testing.T
	kind string
	uid  int
	dir  string // custody's state
	data string // a directory for databases that stay
	tmp  string
	port int
}

func newHost(t *testing.T, kind string) *host {
	h := &host{t: t, kind: kind, uid: os.Geteuid(), port: freePort(t)}
	if h.uid == 0 {
		h.uid = nobody
	}
	base, err := os.MkdirTemp("", "modelserver-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	os.Chown(base, h.uid, -1)
	for _, p := range []*string{&h.dir, &h.data, &h.tmp} {
		if *p, err = os.MkdirTemp(base, ""); err == nil {
			err = os.Chown(*p, h.uid, -1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	g := h.command(filepath.Join(bin, "guard"))
	g.Env = append(g.Env, guardEnv+"=1")
	g.SysProcAttr.Setsid = true
	alarm, err := g.StdinPipe()
	if err == nil {
		err = g.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		alarm.Close()
		g.Wait()
		for _, l := range h.launches() {
			if l.State != "ended" {
				t.Errorf("launch %s is left: %s %v", l.ID, l.State, l.PIDs)
			}
		}
		until(t, "the end of every helper", 10*time.Second, func() bool { return len(h.helpers()) == 0 })
	})
	return h
}

// stranger listens on the host's port until the returned function is called.
func (h *host) stranger() (pid int, leave func()) {
	h.t.Helper()
	c := h.command(filepath.Join(bin, "guard"))
	c.Env = append(c.Env, fmt.Sprintf("%s=%d", otherEnv, h.port))
	in, err := c.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "<nil>\n" {
		h.t.Fatalf("the stranger says %q %v", line, err)
	}
	return c.Process.Pid, func() {
		h.t.Helper()
		in.Close()
		if err := c.Wait(); err != nil {
			h.t.Errorf("the stranger ended with %v", err)
		}
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// command prepares a program run as the host's user.
func (h *host) command(path string, arg ...string) *exec.Cmd {
	c := exec.Command(path, arg...)
	c.Dir = "/"
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "XDG_") && !strings.HasPrefix(kv, "PG") {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(c.Env, "HOME="+h.tmp, "TMPDIR="+h.tmp, "CUSTODY_DIR="+h.dir, "PGPASSWORD="+password,
		"PATH="+bin+":"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{}
	if h.uid != os.Geteuid() {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(h.uid), Gid: uint32(h.uid)}
	}
	return c
}

// custody runs the custody command, and reads its JSON into v.
func (h *host) custody(v any, arg ...string) {
	h.t.Helper()
	c := h.command(filepath.Join(bin, "custody"), append([]string{"--json"}, arg...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err == nil {
		err = json.Unmarshal(out, v)
	}
	if err != nil {
		h.t.Fatalf("custody %v: %v %s", arg, err, stderr.String())
	}
}

func (h *host) launches() (ls []custody.LaunchInfo) {
	h.t.Helper()
	h.custody(&ls, "ls", "--all")
	return ls
}

func (h *host) status() (st custody.Status) {
	h.t.Helper()
	h.custody(&st, "status", "db")
	return st
}

// logged returns the server's log.
func (h *host) logged() string {
	h.t.Helper()
	out, err := h.command(filepath.Join(bin, "custody"), "logs", "db").Output()
	if err != nil {
		h.t.Fatal(err)
	}
	return string(out)
}

// helpers returns custody's own processes that work for the host.
func (h *host) helpers() []string {
	var found []string
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range all {
		line, _ := os.ReadFile(p)
		env, _ := os.ReadFile(filepath.Dir(p) + "/environ")
		if strings.HasPrefix(string(line), "custody") && bytes.Contains(env, []byte("CUSTODY_DIR="+h.dir)) {
			found = append(found, p+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// program is one run of a controller.
type program struct {
	h     *host
	cmd   *exec.Cmd
	began time.Time
	done  chan struct{} // its log has ended

	mu  sync.Mutex
	log []string
	at  []time.Time
}

// run starts a controller.
func (h *host) run(arg ...string) *program {
	h.t.Helper()
	arg = append([]string{"--port", strconv.Itoa(h.port)}, arg...)
	c := &program{h: h, done: make(chan struct{}), began: time.Now()}
	if h.kind == "go" {
		c.cmd = h.command(filepath.Join(bin, "modelserver"), arg...)
	} else {
		node, _ := exec.LookPath("node")
		c.cmd = h.command(node, append([]string{filepath.Join(bin, "controller.mjs")}, arg...)...)
	}
	r, w, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	c.cmd.Stdout, c.cmd.Stderr = w, w
	err = c.cmd.Start()
	w.Close()
	if err != nil {
		h.t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			c.mu.Lock()
			c.log, c.at = append(c.log, lines.Text()), append(c.at, time.Now())
			c.mu.Unlock()
		}
	}()
	h.t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
		if h.t.Failed() {
			h.t.Logf("a controller said:\n%s", strings.Join(c.lines(), "\n"))
		}
	})
	return c
}

func (c *program) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// says waits for a line, and returns it with the time since the controller was
// started.
func (c *program) says(text string) (string, time.Duration) {
	c.h.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		i := slices.IndexFunc(c.log, func(l string) bool { return strings.Contains(l, text) })
		if i >= 0 {
			defer c.mu.Unlock()
			return c.log[i], c.at[i].Sub(c.began)
		}
		c.mu.Unlock()
		select {
		case <-c.done:
			if !slices.ContainsFunc(c.lines(), func(l string) bool { return strings.Contains(l, text) }) {
				c.h.t.Fatalf("the controller ended without a word of %q", text)
			}
		default:
		}
	}
	c.h.t.Fatalf("waited in vain for the controller to say %q", text)
	return "", 0
}

// kill is what an operator, the kernel or a bug does to a controller.
func (c *program) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// ends waits for the controller's own end.
func (c *program) ends() error {
	c.h.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- c.cmd.Wait() }()
	select {
	case err := <-ended:
		<-c.done
		return err
	case <-time.After(time.Minute):
		c.h.t.Fatal("the controller does not end")
		return nil
	}
}

// session is a client with an open connection.
type session struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (h *host) connect() *session {
	h.t.Helper()
	c := h.command("psql", "-qtAXw", "-h", "127.0.0.1", "-p", strconv.Itoa(h.port), "-U", "postgres")
	c.Env = append(c.Env, "PGCONNECT_TIMEOUT=30")
	said := &bytes.Buffer{}
	c.Stderr = said
	in, err := c.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	s := &session{h.t, c, in, bufio.NewReader(out)}
	h.t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		if h.t.Failed() && said.Len() > 0 {
			h.t.Logf("a client was told:\n%s", said)
		}
	})
	return s
}

// send sends a statement and waits for no answer.
func (s *session) send(sql string) { fmt.Fprintln(s.in, sql+";") }

// ask sends a statement and returns the first line of its answer.
func (s *session) ask(sql string) string {
	s.t.Helper()
	s.send(sql)
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatalf("%s: the connection ended", sql)
	}
	return strings.TrimSpace(line)
}

func (s *session) number(sql string) int {
	s.t.Helper()
	n, err := strconv.Atoi(s.ask(sql))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// watch holds processes by their handles.
type watch struct {
	t   *testing.T
	fds map[int]int // by pid
}

func watching(t *testing.T, pids []int) *watch {
	t.Helper()
	w := &watch{t, map[int]int{}}
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatalf("process %d: %v", pid, err)
		}
		w.fds[pid] = fd
	}
	t.Cleanup(func() {
		for _, fd := range w.fds {
			unix.Close(fd)
		}
	})
	return w
}

func (w *watch) alive() (pids []int) {
	for pid, fd := range w.fds {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, _ := unix.Poll(p, 0); n == 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (w *watch) kill(pid int) {
	w.t.Helper()
	if err := unix.PidfdSendSignal(w.fds[pid], unix.SIGKILL, nil, 0); err != nil {
		w.t.Fatal(err)
	}
}

func until(t *testing.T, what string, most time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(most); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain for %s", most, what)
		}
	}
}

// load returns the machine's load of the last minute.
func load(t *testing.T) (l float64) {
	t.Helper()
	b, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(b), &l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}
