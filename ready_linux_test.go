package custody_test

// Readiness: an answer counts only if it is proven to come from the tree.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
	"golang.org/x/sys/unix"
)

// sharing listens with SO_REUSEPORT.
func sharing(t *testing.T, port int) *net.TCPListener {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	l, err := lc.Listen(t.Context(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

// soon is a time in which a busy machine makes a server listen.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestReady(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		for what, args := range map[string][]string{
			"late":                          {"-delay", "300ms"},
			"a child in a session below it": {"-delay", "100ms", "-below"},
			"on every address":              {"-addr", "::"},
		} {
			port := freePort(t)
			o := openOwner(t, custody.Options{Dir: stateDir(t)})
			c := server(t, o, port, args...)
			c.Kept, c.Ports = kept, []int{port}
			must(t, c.Start())
			if err := c.Launch().WaitReady(soon(t), custody.Ready{Port: port}); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if !listens(port) {
				t.Errorf("%s: ready, and it does not listen", what)
			}
			url := fmt.Sprintf("http://localhost:%d/health?x=1", port)
			if err := c.Launch().WaitReady(soon(t), custody.Ready{Port: port}, custody.Ready{URL: url}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// Only 200 to 299 is ready; why it is not is told when time is up.
func TestReadyAnswers(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	var wg sync.WaitGroup
	for status, ready := range map[int]bool{200: true, 299: true, 302: false, 503: false, 199: false, 300: false} {
		port := freePort(t)
		c := server(t, o, port, "-status", strconv.Itoa(status))
		must(t, c.Start())
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if !ready {
				if err := c.Launch().WaitReady(ctx, custody.Ready{Port: port}); err != nil {
					t.Error(err)
				}
				ctx, cancel = context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
			}
			err := c.Launch().WaitReady(ctx, custody.Ready{URL: fmt.Sprintf("http://127.0.0.1:%d", port)})
			if ready != (err == nil) {
				t.Errorf("%d: %v", status, err)
			}
			if !ready && (!errors.Is(err, custody.ErrNotReady) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprint("answered HTTP/1.1 ", status))) {
				t.Errorf("%d: %v", status, err)
			}
		})
	}
	wg.Wait()
}

func TestNotReadyWithoutListener(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	port := freePort(t)
	c := sleeper(o, false)
	must(t, c.Start())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := c.Launch().WaitReady(ctx, custody.Ready{Port: port})
	if !errors.Is(err, custody.ErrNotReady) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nobody listens") {
		t.Error(err)
	}
}

// A stranger that shares the port answers half of the requests: it is not
// ready, and the stranger is named.
func TestReadyStrangerBeside(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		port := freePort(t)
		l := sharing(t, port)
		pid, log, _ := onlooker(t, l)
		l.Close()
		o := openOwner(t, custody.Options{Dir: stateDir(t)})
		c := server(t, o, port, "-share")
		c.Kept = kept
		must(t, c.Start())
		for _, r := range []custody.Ready{{Port: port}, {URL: fmt.Sprintf("http://127.0.0.1:%d/", port)}} {
			err := c.Launch().WaitReady(soon(t), r)
			var not *custody.NotReadyError
			if !errors.As(err, &not) || not.PID != pid || !strings.Contains(err.Error(), fmt.Sprintf("process %d (", pid)) {
				t.Errorf("%v: %v, want process %d", r, err, pid)
			}
		}
		untouched(t, pid, log)
	})
}

// One that comes while the answer is on its way may have given it.
func TestReadyStrangerBetween(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	port := freePort(t)
	c := server(t, o, port, "-share", "-think", "2s")
	must(t, c.Start())
	must(t, c.Launch().WaitReady(soon(t), custody.Ready{Port: port}))
	got := make(chan error, 1)
	go func() {
		got <- c.Launch().WaitReady(soon(t), custody.Ready{URL: fmt.Sprintf("http://127.0.0.1:%d/", port)})
	}()
	time.Sleep(500 * time.Millisecond)
	sharing(t, port)
	err := <-got
	var not *custody.NotReadyError
	if !errors.As(err, &not) || not.PID != os.Getpid() {
		t.Errorf("%v, want process %d", err, os.Getpid())
	}
}

// A stranger with the very same arguments has the port; the launch never gets
// it.
func TestReadyStrangerInPlace(t *testing.T) {
	port := freePort(t)
	args := tree.Command("server", "-port", strconv.Itoa(port), "-retry", "-life", "5m")
	stranger := exec.Command(args[0], args[1:]...)
	must(t, stranger.Start())
	t.Cleanup(func() { stranger.Process.Kill(); stranger.Wait() })
	until(t, "the stranger listens", func() bool { return listens(port) })
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	c := o.Command(args[0], args[1:]...)
	must(t, c.Start())
	err := c.Launch().WaitReady(soon(t), custody.Ready{URL: fmt.Sprintf("http://127.0.0.1:%d/", port)})
	var not *custody.NotReadyError
	if !errors.As(err, &not) || not.PID != stranger.Process.Pid || !slices.Equal(not.Command, args) || not.State != nil {
		t.Errorf("%v, want process %d", err, stranger.Process.Pid)
	}
	if !listens(port) {
		t.Error("the stranger does not listen any more")
	}
}

// While the predecessor listens, in its own place or beside the new one, the
// new one is not ready; it is when only its own listener is there.
func TestReadyAfterThePredecessor(t *testing.T) {
	for _, how := range []string{"-share", "-retry"} {
		t.Run(how, func(t *testing.T) {
			dir, port := stateDir(t), freePort(t)
			o, other := openOwner(t, custody.Options{Dir: dir}), openOwner(t, custody.Options{Dir: dir})
			old := server(t, other, port, how)
			must(t, old.Start())
			must(t, old.Launch().WaitReady(soon(t), custody.Ready{Port: port}))
			c := server(t, o, port, how)
			must(t, c.Start())
			got := make(chan error, 1)
			go func() {
				got <- c.Launch().WaitReady(soon(t), custody.Ready{Port: port}, custody.Ready{URL: fmt.Sprintf("http://127.0.0.1:%d/", port)})
			}()
			select {
			case err := <-got:
				t.Fatalf("while the predecessor listens: %v", err)
			case <-time.After(time.Second):
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := c.Launch().WaitReady(ctx, custody.Ready{Port: port}); err == nil || !strings.Contains(err.Error(), old.Launch().ID().Short()) {
				t.Errorf("it does not name the predecessor: %v", err)
			}
			_, err := old.Launch().Stop(t.Context())
			must(t, err)
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
}

// The leader's end is the end of the wait, and is told.
func TestReadyLeaderEnds(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		o := openOwner(t, custody.Options{Dir: stateDir(t)})
		for line, want := range map[string]string{"sleep 0.2; exit 7": "exit status 7", "exit 0": "exit status 0", "kill -KILL $$": "signal: killed"} {
			c := o.Command("sh", "-c", line)
			c.Kept = kept
			must(t, c.Start())
			err := c.Launch().WaitReady(soon(t), custody.Ready{Port: freePort(t)})
			var not *custody.NotReadyError
			if !errors.As(err, &not) || not.State == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", line, err, want)
			}
		}
	})
}

// Of a launch that lingers the leader may end.
func TestReadyLingers(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	port := freePort(t)
	argv := tree.Command("server", "-port", strconv.Itoa(port), "-delay", "500ms", "-life", "5m")
	c := o.Command("sh", append([]string{"-c", `"$@" & exit 0`, "sh"}, argv...)...)
	c.Kept, c.Linger = true, true
	must(t, c.Start())
	<-c.Launch().Exited()
	must(t, c.Launch().WaitReady(soon(t), custody.Ready{Port: port}))
	_, err := c.Launch().Stop(t.Context())
	must(t, err)
}

func TestCloseEndsTheWaitForReadiness(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	c := sleeper(o, false)
	must(t, c.Start())
	got := make(chan error, 1)
	go func() { got <- c.Launch().WaitReady(soon(t), custody.Ready{Port: freePort(t)}) }()
	time.Sleep(50 * time.Millisecond)
	within(t, "Close", func() { o.Close() })
	within(t, "WaitReady", func() {
		if err := <-got; !errors.Is(err, custody.ErrNotReady) {
			t.Error(err)
		}
	})
}

// A line of the log, whenever it is written, makes it ready; ours do not.
func TestReadyByTheLog(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	start := func(line string) *custody.Launch {
		c := o.Command("sh", "-c", line)
		c.Kept, c.OnOwnerDeath, c.Log = true, custody.Survive, &custody.LogSpec{}
		must(t, c.Start())
		t.Cleanup(func() { c.Launch().Kill(context.Background()) })
		return c.Launch()
	}
	ready := custody.Ready{Log: regexp.MustCompile(`^ready in [0-9]+ ms$`)}
	for _, line := range []string{
		"echo loading; echo ready in 12 ms; sleep 60",
		"sleep 0.3; echo loading; printf 'ready '; sleep 0.3; printf 'in 7 ms\r\n'; sleep 60",
		"echo x >&2; head -c 300000 /dev/zero; echo; echo ready in 1 ms >&2; sleep 60",
	} {
		l := start(line)
		must(t, l.WaitReady(soon(t), ready))
		must(t, l.WaitReady(soon(t), ready)) // it was written
	}
	for line, match := range map[string]string{"echo loading; sleep 60": "ready", "printf 'ready in 1 ms'; sleep 60": "ready", "echo '[custody: ready]'; sleep 60": "ready"} {
		l := start(line)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := l.WaitReady(ctx, custody.Ready{Log: regexp.MustCompile(match)})
		cancel()
		if !errors.Is(err, custody.ErrNotReady) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no line of its log matches") {
			t.Errorf("%s: %v", line, err)
		}
	}
	// Its end is told with what it said last.
	l := start("echo one; echo 'no such model' >&2; exit 3")
	var not *custody.NotReadyError
	if err := l.WaitReady(soon(t), ready); !errors.As(err, &not) || !slices.Equal(not.Log, []string{"one", "no such model"}) ||
		!strings.Contains(err.Error(), `exit status 3; the last it said is "no such model"`) {
		t.Errorf("%v %q", err, not.Log)
	}
	c := sleeper(o, true)
	must(t, c.Start())
	if err := c.Launch().WaitReady(soon(t), ready); err == nil || !strings.Contains(err.Error(), "has no log") {
		t.Errorf("without a log: %v", err)
	}
}

func TestParseReady(t *testing.T) {
	for _, s := range []string{"log:^up [0-9]+:x$", "log ^up [0-9]+:x$"} {
		if r, err := custody.ParseReady(s); err != nil || r.Log == nil || r.Log.String() != "^up [0-9]+:x$" || r.String() != "log:^up [0-9]+:x$" {
			t.Errorf("%q: %+v %v", s, r, err)
		}
	}
	for s, want := range map[string]custody.Ready{
		"port:8000": {Port: 8000}, "port 8000": {Port: 8000},
		"http://localhost:8000/x": {URL: "http://localhost:8000/x"}, "http http://[::1]/": {URL: "http://[::1]/"},
		"http://0.0.0.0:1": {URL: "http://0.0.0.0:1"},
	} {
		if r, err := custody.ParseReady(s); err != nil || r != want {
			t.Errorf("%q: %+v %v", s, r, err)
		}
	}
	for _, s := range []string{"", "port", "port:", "port:0", "port:65536", "port:x", "8000", "https://localhost/", "http://example.com/",
		"http://192.0.2.77:80/", "http://user@localhost/", "http://localhost:0/", "http://localhost:99999/", "http://", "log", "log:", "log:(", "ftp://localhost/"} {
		if r, err := custody.ParseReady(s); err == nil {
			t.Errorf("%q: %+v", s, r)
		}
	}
}
