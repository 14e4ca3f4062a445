package port

// Real sockets: who may bind, who listens, and whose that is.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/tree"
	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

// The main thread stays with the main goroutine: a test that changes its thread
// must not get this one, which never ends and is the one that /proc/self shows.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	tree.Main()
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// socket binds a TCP socket, with the options set to 1, and listens on it.
func socket(t *testing.T, addr string, port int, listen bool, options ...int) (*os.File, int) {
	t.Helper()
	ip := netip.MustParseAddr(addr)
	family, sa := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: port, Addr: ip.As16()})
	if ip.Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	f := os.NewFile(uintptr(fd), "socket")
	t.Cleanup(func() { f.Close() })
	for _, o := range options {
		level := unix.SOL_SOCKET
		if o == unix.IPV6_V6ONLY {
			level = unix.IPPROTO_IPV6
		}
		must(t, unix.SetsockoptInt(fd, level, o, 1))
	}
	must(t, unix.Bind(fd, sa))
	if listen {
		must(t, unix.Listen(fd, 8))
	}
	got, err := unix.Getsockname(fd)
	must(t, err)
	switch a := got.(type) {
	case *unix.SockaddrInet4:
		port = a.Port
	case *unix.SockaddrInet6:
		port = a.Port
	}
	return f, port
}

// child starts a tree program that inherits the files, and returns its pid.
func child(t *testing.T, prog string, files ...*os.File) int {
	t.Helper()
	pids := filepath.Join(t.TempDir(), "pids")
	args := tree.Command(prog, "-pids", pids, "-life", "5m")
	c := exec.Command(args[0], args[1:]...)
	c.ExtraFiles = files
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := tree.Wait(ctx, pids, 1)
	must(t, err)
	return c.Process.Pid
}

func open(t *testing.T, pid int) *host.Process {
	t.Helper()
	p, err := host.Open(pid)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func foreign(*host.Process) proof.Verdict { return proof.Foreign }

func TestFreeSeesEveryHolder(t *testing.T) {
	for what, c := range map[string]struct {
		addr    string
		listen  bool
		options []int
	}{
		"loopback":               {"127.0.0.1", true, nil},
		"loopback, for reuse":    {"127.0.0.1", true, []int{unix.SO_REUSEADDR}},
		"wildcard":               {"0.0.0.0", true, nil},
		"another loopback":       {"127.0.0.2", true, nil},
		"IPv6 loopback":          {"::1", true, []int{unix.SO_REUSEADDR, unix.IPV6_V6ONLY}},
		"IPv6 wildcard, alone":   {"::", true, []int{unix.SO_REUSEADDR, unix.IPV6_V6ONLY}},
		"both families":          {"::", true, nil},
		"shared with the world":  {"0.0.0.0", true, []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT}},
		"bound, not listened on": {"127.0.0.1", false, nil},
	} {
		f, port := socket(t, c.addr, 0, c.listen, c.options...)
		if err := Free(port); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), fmt.Sprintf("port %d can't be bound", port)) {
			t.Errorf("%s: held port %d: %v", what, port, err)
		}
		f.Close()
		if err := Free(port); err != nil {
			t.Errorf("%s: free port %d: %v", what, port, err)
		}
	}
	for _, n := range []int{0, -1, 65536} {
		if err := Free(n); err == nil || errors.Is(err, ErrHeld) {
			t.Errorf("port %d: %v", n, err)
		}
	}
}

// What an ended server leaves behind in the kernel holds nothing.
func TestTimeWaitIsFree(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	client, err := net.Dial("tcp4", l.Addr().String())
	must(t, err)
	server, err := l.Accept()
	must(t, err)
	l.Close()
	server.Close() // who closes first waits
	client.SetReadDeadline(time.Now().Add(30 * time.Second))
	client.Read(make([]byte, 1))
	client.Close()
	waiting := func() bool {
		b, err := os.ReadFile("/proc/self/net/tcp")
		must(t, err)
		for line := range strings.Lines(string(b)) {
			w := strings.Fields(line)
			if len(w) > 3 && strings.HasSuffix(w[1], fmt.Sprintf(":%04X", port)) && w[3] == "06" {
				return true
			}
		}
		return false
	}
	for end := time.Now().Add(30 * time.Second); !waiting(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no connection in TIME_WAIT")
		}
	}
	if err := Free(port); err != nil {
		t.Error(err)
	}
	if !waiting() {
		t.Error("it was waited for")
	}
}

// inNamespace calls f on a thread of its own in a network namespace of its own,
// with the loopback interface up. The thread ends with it.
func inNamespace(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = loopbackUp()
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	must(t, <-done)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(req))); e != 0 {
		return e
	}
	return nil
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may make a network namespace here")
	}
}

func TestLowPortOfAnOrdinaryUser(t *testing.T) {
	needRoot(t)
	inNamespace(t, func() {
		if err := Free(80); err != nil {
			t.Errorf("as root: %v", err)
		}
		// This thread alone, with its capabilities.
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); e != 0 {
			t.Error(e)
			return
		}
		err := Free(80)
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "CAP_NET_BIND_SERVICE") {
			t.Errorf("as an ordinary user: %v", err)
		}
		if err := Free(8080); err != nil {
			t.Errorf("a high port as an ordinary user: %v", err)
		}
	})
}

// A connection is no hold on the port: neither the client's, nor the one that
// was accepted.
func TestHoldersAreListeners(t *testing.T) {
	f, port := socket(t, "127.0.0.1", 0, true, unix.SO_REUSEADDR)
	server := child(t, "sleep", f)
	f.Close()
	client, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	must(t, err)
	cf, err := client.(*net.TCPConn).File()
	must(t, err)
	defer cf.Close()
	visitor := child(t, "sleep", cf)
	client.Close()

	hs, err := Holders(port)
	must(t, err)
	defer Close(hs)
	if len(hs) != 1 || hs[0].PID != server || hs[0].Proc == nil || hs[0].Addr.String() != fmt.Sprintf("127.0.0.1:%d", port) || hs[0].UID != os.Geteuid() {
		t.Fatalf("holders %v, want process %d (and not %d)", hs, server, visitor)
	}
	if s := hs[0].String(); !strings.Contains(s, fmt.Sprintf("process %d (", server)) || !strings.Contains(s, "tree:sleep") {
		t.Errorf("named %q", s)
	}
}

// Both ways of asking give the same, for both families.
func TestTwoWaysToAsk(t *testing.T) {
	me := open(t, os.Getpid())
	f4, port := socket(t, "127.0.0.1", 0, true, unix.SO_REUSEADDR, unix.SO_REUSEPORT)
	socket(t, "127.0.0.1", port, true, unix.SO_REUSEADDR, unix.SO_REUSEPORT)
	socket(t, "::", port, true, unix.SO_REUSEADDR, unix.IPV6_V6ONLY)
	got, err := diag(port)
	must(t, err)
	sorted(got)
	read, err := namespace{proc: me}.listeners(port)
	must(t, err)
	if len(got) != 3 || !slices.Equal(got, read) {
		t.Errorf("sock_diag %v\n/proc %v", got, read)
	}
	var st unix.Stat_t
	must(t, unix.Fstat(int(f4.Fd()), &st))
	if !slices.ContainsFunc(got, func(s Socket) bool { return s.Inode == st.Ino && s.Addr.Addr().String() == "127.0.0.1" }) {
		t.Errorf("socket %d is not among %v", st.Ino, got)
	}
	// Many neighbours in the list.
	for range 100 {
		socket(t, "127.0.0.1", 0, true)
	}
	if read, err = (namespace{proc: me}).listeners(port); err != nil || !slices.Equal(got, read) {
		t.Errorf("/proc among many: %v %v", read, err)
	}
}

func TestBelongs(t *testing.T) {
	self := open(t, os.Getpid())
	mine := []*host.Process{self}
	look := func(what string, port int, members []*host.Process, judge Judge, want proof.Verdict) Look {
		t.Helper()
		l, err := Belongs(port, members, judge)
		must(t, err)
		if l.Verdict != want {
			t.Errorf("%s: %v (%s), want %v", what, l.Verdict, l.Reason, want)
		}
		return l
	}
	f, port := socket(t, "127.0.0.1", 0, true, unix.SO_REUSEADDR, unix.SO_REUSEPORT)
	look("ours", port, mine, foreign, proof.Owned)
	look("nobody's", port, nil, foreign, proof.Foreign)
	look("judged ours", port, nil, func(*host.Process) proof.Verdict { return proof.Owned }, proof.Owned)
	look("judged unsure", port, nil, func(*host.Process) proof.Verdict { return proof.Unsure }, proof.Unsure)

	// A stranger beside us on the same port, the same address.
	g, _ := socket(t, "127.0.0.1", port, true, unix.SO_REUSEADDR, unix.SO_REUSEPORT)
	beside := child(t, "sleep", g)
	g.Close()
	if l := look("a stranger beside us", port, mine, foreign, proof.Foreign); len(l.Others) != 1 || l.Others[0].PID != beside {
		t.Errorf("others: %v", l.Others)
	}
	look("two members", port, append(mine, open(t, beside)), foreign, proof.Owned)
	f.Close()
	look("the stranger alone", port, mine, foreign, proof.Foreign)

	// One on another address.
	_, port = socket(t, "127.0.0.1", 0, true)
	h, _ := socket(t, "::1", port, true, unix.IPV6_V6ONLY)
	child(t, "sleep", h)
	h.Close()
	look("a stranger on IPv6", port, mine, foreign, proof.Foreign)

	// One that has our very socket answers in our place.
	f, port = socket(t, "127.0.0.1", 0, true)
	shared := child(t, "sleep", f)
	if l := look("a shared socket", port, mine, foreign, proof.Foreign); len(l.Others) != 1 || l.Others[0].PID != shared {
		t.Errorf("others: %v", l.Others)
	}

	f, port = socket(t, "127.0.0.1", 0, true)
	f.Close()
	look("a closed one", port, mine, foreign, proof.Gone)
	_, port = socket(t, "127.0.0.1", 0, false)
	look("bound only", port, mine, foreign, proof.Gone)
}

// Between the judgement and the end of the look nothing may have changed.
func TestListenersThatChange(t *testing.T) {
	f, port := socket(t, "127.0.0.1", 0, true, unix.SO_REUSEADDR)
	l, err := Belongs(port, nil, func(*host.Process) proof.Verdict {
		f.Close()
		socket(t, "127.0.0.1", port, true, unix.SO_REUSEADDR)
		return proof.Owned
	})
	if err != nil || l.Verdict != proof.Unsure {
		t.Errorf("%v %v", l, err)
	}
}

// A server whose main thread has ended shows no descriptors under its pid.
func TestMainThreadEnded(t *testing.T) {
	f, port := socket(t, "127.0.0.1", 0, true)
	server := child(t, "thread-main-exit", f)
	f.Close()
	hs, err := Holders(port)
	must(t, err)
	defer Close(hs)
	if len(hs) != 1 || hs[0].PID != server {
		t.Errorf("holders %v, want process %d", hs, server)
	}
}

// A socket whose holder can't be seen is nobody's proof.
func TestHolderThatCantBeSeen(t *testing.T) {
	needRoot(t)
	f, port := socket(t, "127.0.0.1", 0, true)
	child(t, "sleep", f)
	f.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); e != 0 {
			t.Error(e)
			return
		}
		hs, err := Holders(port)
		if err != nil || len(hs) != 1 || hs[0].PID != 0 || !strings.Contains(hs[0].String(), "uid 0") {
			t.Errorf("holders %v %v", hs, err)
		}
		if l, err := Belongs(port, nil, func(*host.Process) proof.Verdict { return proof.Owned }); err != nil || l.Verdict != proof.Unsure {
			t.Errorf("%v %v", l, err)
		}
	}()
	<-done
}

// A member in another network namespace listens on another port of that number.
func TestOtherNetworkNamespace(t *testing.T) {
	needRoot(t)
	_, port := socket(t, "127.0.0.1", 0, false) // nobody else gets it meanwhile
	var pid int
	inNamespace(t, func() {
		f, _ := socket(t, "127.0.0.1", port, true)
		pid = child(t, "sleep", f) // forked from this thread, so it is there too
		f.Close()
	})
	there := open(t, pid)
	l, err := Belongs(port, []*host.Process{there}, foreign)
	if err != nil || l.Verdict != proof.Owned || !strings.Contains(l.Reason, "network namespace of process") {
		t.Errorf("%+v %v", l, err)
	}
	if l, err := Belongs(port, []*host.Process{open(t, os.Getpid())}, foreign); err != nil || l.Verdict != proof.Gone {
		t.Errorf("from outside: %+v %v", l, err)
	}
	// A stranger on the number here spoils what is there.
	_, port2 := socket(t, "127.0.0.1", 0, true)
	inNamespace(t, func() {
		f, _ := socket(t, "127.0.0.1", port2, true)
		pid = child(t, "sleep", f)
		f.Close()
	})
	if l, err := Belongs(port2, []*host.Process{open(t, pid)}, foreign); err != nil || l.Verdict != proof.Foreign {
		t.Errorf("with a stranger here: %+v %v", l, err)
	}
}

// Where the kernel, or a container's seccomp, has no sock_diag, /proc is read.
func TestWithoutSockDiag(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, exe, "-test.run", "^(TestBelongs|TestHoldersAreListeners|TestListenersThatChange)$", "-test.v")
	c.Env = append(os.Environ(), "CUSTODY_DEBUG_WITHOUT=sockdiag")
	out, err := c.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}
