package custody_test

// Ports: what is reserved is held by one, what is held is named, and nobody who
// is not proven ours is touched for it.

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	"github.com/custody-project/custody/internal/tree"
)

func init() { roles["serving"] = playServing }

// playServing starts one launch, and is killed.
func playServing(o order) {
	ow, err := custody.Open(context.Background(), "test", &custody.Options{Dir: o.Dir, WithoutHelper: o.Alone})
	if err != nil {
		fatal(err)
	}
	c := ow.Command(o.Command[0], o.Command[1:]...)
	c.Kept, c.Name, c.Ports = o.Kept, o.Name, o.Ports
	c.Phases = []custody.Phase{{Signal: syscall.SIGTERM, Wait: 100 * time.Millisecond}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
	if err := c.Start(); err != nil {
		fatal(err)
	}
	fmt.Println("started", c.Launch().ID())
	suicide()
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func listens(port int) bool {
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		c.Close()
	}
	return err == nil
}

// onlooker starts a stranger that logs every signal it gets and holds a file.
func onlooker(t *testing.T, file interface{ File() (*os.File, error) }) (pid int, log string, args []string) {
	t.Helper()
	dir := t.TempDir()
	log, pids := filepath.Join(dir, "log"), filepath.Join(dir, "pids")
	args = tree.Command("siglog", "-n", "0", "-log", log, "-pids", pids, "-life", "5m")
	c := exec.Command(args[0], args[1:]...)
	f, err := file.File()
	must(t, err)
	defer f.Close()
	c.ExtraFiles = []*os.File{f}
	must(t, c.Start())
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = tree.Wait(ctx, pids, 1)
	must(t, err)
	return c.Process.Pid, log, args
}

// server prepares a launch that listens on a port.
func server(t *testing.T, o *custody.Owner, port int, args ...string) *custody.Cmd {
	t.Helper()
	argv := tree.Command("server", append([]string{"-port", strconv.Itoa(port), "-life", "5m"}, args...)...)
	c := o.Command(argv[0], argv[1:]...)
	c.Phases = []custody.Phase{{Signal: syscall.SIGTERM, Wait: time.Second}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
	return c
}

// C17: a stranger listens, another is connected to it; the command of the
// launch reads like the stranger's. Nobody is touched, and the holder is named.
func TestC17_StrangerOnThePort(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		holder, holderLog, args := onlooker(t, l.(*net.TCPListener))
		conn, err := net.Dial("tcp4", l.Addr().String())
		must(t, err)
		l.Close()
		client, clientLog, _ := onlooker(t, conn.(*net.TCPConn))
		conn.Close()

		dir := stateDir(t)
		o := openOwner(t, custody.Options{Dir: dir})
		c := o.Command(args[0], args[1:]...)
		c.Kept, c.Ports, c.Name = kept, []int{port}, "n"
		err = c.Start()
		var held *custody.PortHeldError
		if !errors.Is(err, custody.ErrPortHeld) || !errors.As(err, &held) {
			t.Fatalf("start: %v", err)
		}
		if held.Port != port || held.PID != holder || !held.Launch.IsZero() || strings.Join(held.Command, " ") != strings.Join(args, " ") {
			t.Errorf("%+v, want process %d", held, holder)
		}
		for _, want := range []string{fmt.Sprintf("port %d", port), fmt.Sprintf("process %d (", holder), "siglog", "not ours", "another port"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		if strings.Contains(err.Error(), fmt.Sprint("process ", client)) {
			t.Errorf("%q names the client", err)
		}
		_, err = custody.Sweep(t.Context(), custody.SweepOptions{Dir: dir})
		must(t, err)
		untouched(t, holder, holderLog)
		untouched(t, client, clientLog)
		if left, _ := filepath.Glob(filepath.Join(dir, ".ports", "[0-9]*")); len(left) > 0 {
			t.Errorf("claims left: %v", left)
		}
		// Neither name nor port was kept.
		c = server(t, o, freePort(t))
		c.Name = "n"
		must(t, c.Start())
	})
}

// C17, C34: what a dead owner left on the port is ended first, whether its
// record names the port or only its process is proven; in another scope, where
// no sweep came before.
func TestC17_LeftoverOnThePort(t *testing.T) {
	for _, reserved := range []bool{true, false} {
		t.Run(fmt.Sprintf("reserved=%v", reserved), func(t *testing.T) {
			dir, port, pids := stateDir(t), freePort(t), filepath.Join(t.TempDir(), "pids")
			t.Cleanup(func() { endTree(t, pids) })
			ord := order{Dir: dir, Alone: true, Command: tree.Command("server", "-below", "-ignore", "TERM", "-port", strconv.Itoa(port), "-pids", pids, "-life", "5m")}
			if reserved {
				ord.Ports = []int{port}
			}
			play(t, "serving", ord).Run() // it is killed
			until(t, "the leftover listens", func() bool { return listens(port) })

			o, err := custody.Open(t.Context(), "other", &custody.Options{Dir: dir})
			must(t, err)
			defer o.Close()
			c := server(t, o, port)
			c.Ports = []int{port}
			must(t, c.Start())
			if left := alive(t, pids); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			until(t, "the new one listens", func() bool { return listens(port) })
		})
	}
}

// Told to sweep nothing, it ends nothing, and names what it found.
func TestLeftoverIsLeftWithoutSweep(t *testing.T) {
	dir, port, pids := stateDir(t), freePort(t), filepath.Join(t.TempDir(), "pids")
	t.Cleanup(func() { endTree(t, pids) })
	play(t, "serving", order{Dir: dir, Alone: true, Ports: []int{port}, Command: tree.Command("server", "-port", strconv.Itoa(port), "-pids", pids, "-life", "5m")}).Run()
	until(t, "the leftover listens", func() bool { return listens(port) })
	o := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
	c := server(t, o, port)
	c.Ports = []int{port}
	err := c.Start()
	var held *custody.PortHeldError
	if !errors.As(err, &held) || held.Launch.IsZero() || !strings.Contains(err.Error(), "custody sweep") {
		t.Fatal(err)
	}
	if !listens(port) {
		t.Error("it was ended")
	}
}

// A live launch of ours that holds a port, or has it reserved, is named by id
// and name, and left alone.
func TestPortOfALiveLaunch(t *testing.T) {
	dir := stateDir(t)
	first, other := openOwner(t, custody.Options{Dir: dir}), openOwner(t, custody.Options{Dir: dir})
	for what, c := range map[string]struct{ reserves, listens bool }{
		"both": {true, true}, "only reserved": {true, false}, "only listens": {false, true},
	} {
		port := freePort(t)
		holder := server(t, first, port)
		if !c.listens {
			holder = server(t, first, port, "-delay", "5m")
		}
		holder.Name = "holder-" + strconv.Itoa(port)
		if c.reserves {
			holder.Ports = []int{port}
		}
		must(t, holder.Start())
		if c.listens {
			until(t, "it listens", func() bool { return listens(port) })
		}
		wants := server(t, other, port)
		wants.Ports = []int{freePort(t), port}
		err := wants.Start()
		var held *custody.PortHeldError
		if !errors.As(err, &held) || held.Launch != holder.Launch().ID() || held.Name != holder.Name || c.listens != (held.PID == holder.Launch().PID()) {
			t.Fatalf("%s: %v", what, err)
		}
		for _, want := range []string{fmt.Sprintf("port %d", port), holder.Launch().ID().Short(), holder.Name, "custody stop", "--replace"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", what, err, want)
			}
		}
		if ms, err := holder.Launch().Members(); err != nil || len(ms) == 0 {
			t.Errorf("%s: the holder: %v %v", what, ms, err)
		}
		_, err = holder.Launch().Stop(t.Context())
		must(t, err)
		// The one that was refused has let go of its other port as well.
		again := server(t, other, port)
		again.Ports = wants.Ports
		must(t, again.Start())
		list, err := custody.List(t.Context(), custody.ListOptions{Dir: dir})
		must(t, err)
		if len(list.Launches) != 1 || len(list.Launches[0].Ports) != 2 {
			t.Errorf("%s: %+v", what, list.Launches)
		}
		_, err = again.Launch().Stop(t.Context())
		must(t, err)
	}
}

// Of two starts that race for a port, in two scopes, exactly one wins.
func TestOneStartGetsThePort(t *testing.T) {
	dir := stateDir(t)
	owners := make([]*custody.Owner, 3)
	for i := range owners {
		o, err := custody.Open(t.Context(), fmt.Sprint("scope", i), &custody.Options{Dir: dir})
		must(t, err)
		defer o.Close()
		owners[i] = o
	}
	for range 10 {
		ports := []int{freePort(t), freePort(t)}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []*custody.Cmd
		for i, o := range owners {
			c := sleeper(o, i == 1)
			c.Ports = ports
			if i == 2 {
				c.Ports = []int{ports[1], ports[0]} // in another order
			}
			wg.Go(func() {
				switch err := c.Start(); {
				case err == nil:
					mu.Lock()
					won = append(won, c)
					mu.Unlock()
				case !errors.Is(err, custody.ErrPortHeld):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d got the ports", len(won))
		}
		_, err := won[0].Launch().Stop(t.Context())
		must(t, err)
	}
}

// A start that fails gives its ports back, and so does a launch that outlived
// its owner and has ended, though its record is kept.
func TestPortsAreGivenBack(t *testing.T) {
	dir, port := stateDir(t), freePort(t)
	o := openOwner(t, custody.Options{Dir: dir})
	bad := o.Command("/nowhere/to/be/found")
	bad.Ports = []int{port}
	if err := bad.Start(); err == nil || errors.Is(err, custody.ErrPortHeld) {
		t.Fatal(err)
	}
	kept := sleeper(o, true)
	kept.OnOwnerDeath, kept.Ports = custody.Survive, []int{port}
	must(t, kept.Start())
	_, err := kept.Launch().Stop(t.Context())
	must(t, err)
	if st, err := custody.StatusOf(t.Context(), kept.Launch().ID().String(), custody.ListOptions{Dir: dir}); err != nil || st.State != custody.StateExited {
		t.Fatalf("%v %v", st, err)
	}
	next := sleeper(o, false)
	next.Ports = []int{port}
	must(t, next.Start())
}

func TestPortsThatCantBe(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	for what, ports := range map[string][]int{"zero": {0}, "high": {65536}, "twice": {4711, 4711}, "many": make([]int, 65)} {
		c := sleeper(o, false)
		c.Ports = ports
		if err := c.Start(); err == nil || !strings.Contains(err.Error(), "port") {
			t.Errorf("%s: %v", what, err)
		}
	}
	c := sleeper(o, false)
	c.Replace = true
	if err := c.Start(); err == nil || !strings.Contains(err.Error(), "Name") {
		t.Errorf("replace without a name: %v", err)
	}
}

// blocker holds a port without listening on it, as the connections of an ended
// server do that did not set SO_REUSEADDR; let go frees it.
func blocker(t *testing.T) (port int, letGo func()) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	defer syscall.Close(fd)
	must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(t, syscall.Listen(fd, 8))
	sa, err := syscall.Getsockname(fd)
	must(t, err)
	port = sa.(*syscall.SockaddrInet4).Port
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	must(t, err)
	got, _, err := syscall.Accept4(fd, syscall.SOCK_CLOEXEC)
	must(t, err)
	must(t, syscall.SetsockoptLinger(got, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1}))
	letGo = sync.OnceFunc(func() {
		syscall.Close(got) // a reset: nothing lingers
		c.SetReadDeadline(time.Now().Add(30 * time.Second))
		c.Read(make([]byte, 1))
		c.Close()
	})
	t.Cleanup(letGo)
	return port, letGo
}

// A port that nobody listens on and that yet can't be bound is told apart from
// a held one.
func TestPortThatLingers(t *testing.T) {
	port, letGo := blocker(t)
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	c := sleeper(o, false)
	c.Ports = []int{port}
	err := c.Start()
	var held *custody.PortHeldError
	if !errors.As(err, &held) || held.PID != 0 || !strings.Contains(err.Error(), "nobody listens") {
		t.Fatal(err)
	}
	letGo()
	c = sleeper(o, false)
	c.Ports = []int{port}
	must(t, c.Start())
}

// C01: the leader that listened is killed, so its port can be bound at once,
// but what it left lives on for its grace: the port is not given to another
// start before that is gone.
func TestC01_PortOfATreeThatLivesOn(t *testing.T) {
	dir, port, pids := stateDir(t), freePort(t), filepath.Join(t.TempDir(), "pids")
	o := openOwner(t, custody.Options{Dir: dir})
	argv := tree.Command("sleep", "-ignore", "TERM", "-pids", pids, "-life", "5m")
	srv := tree.Command("server", "-port", strconv.Itoa(port), "-life", "5m")
	// A worker that is deaf, then the server in the shell's place.
	line := fmt.Sprintf("%s & exec %s", strings.Join(argv, " "), strings.Join(srv, " "))
	c := o.Command("sh", "-c", line)
	c.Ports, c.Name = []int{port}, "n"
	c.Phases = []custody.Phase{{Signal: syscall.SIGTERM, Wait: 3 * time.Second}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
	must(t, c.Start())
	ctx := soon(t)
	must(t, c.Launch().WaitReady(ctx, custody.Ready{Port: port}))
	_, err := tree.Wait(ctx, pids, 1)
	must(t, err)
	must(t, c.Process.Signal(syscall.SIGKILL))
	until(t, "it listens no more", func() bool { return !listens(port) })
	next := server(t, o, port)
	next.Ports = []int{port}
	err = next.Start()
	left := alive(t, pids)
	var held *custody.PortHeldError
	switch {
	case err == nil && len(left) > 0:
		t.Errorf("started beside %v", left)
	case err == nil:
		t.Log("it was gone before we asked") // a very busy machine
	case !errors.As(err, &held) || held.Launch != c.Launch().ID() || held.Name != "n" || held.PID != 0:
		t.Errorf("%v", err)
	}
	<-c.Launch().Gone()
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("its status: %v", err)
	}
	again := server(t, o, port)
	again.Ports = []int{port}
	if err := again.Start(); (err == nil) == (next.Launch() != nil) {
		t.Errorf("after its end: %v", err)
	}
}

// C34: the leader has died, its child holds port, lock and socket without
// knowing it, deaf to TERM, and the owner is killed. A refusal names the one who
// really holds the port; the next start ends what was left first and takes the
// port second, and the lock is free.
func TestC34_OrphanHoldsThePort(t *testing.T) {
	dir, port, tmp := stateDir(t), freePort(t), t.TempDir()
	pids, lock := filepath.Join(tmp, "pids"), filepath.Join(tmp, "lock")
	t.Cleanup(func() { endTree(t, pids) })
	args := tree.Command("holder", "-setsid", "-ignore", "TERM", "-leader", "stay", "-port", strconv.Itoa(port),
		"-lock", lock, "-sock", filepath.Join(tmp, "sock"), "-pids", pids, "-life", "5m")
	play(t, "serving", order{Dir: dir, Alone: true, Name: "n", Ports: []int{port}, Command: args}).Run() // it is killed
	ctx := soon(t)
	procs, err := tree.Wait(ctx, pids, 2)
	must(t, err)
	var holder int
	for _, p := range procs {
		if p.Role == "leader" {
			f, err := os.FindProcess(p.PID)
			must(t, err)
			must(t, f.Kill()) // it holds them too
			until(t, "the leader is dead", func() bool { return !lives(p) })
		} else {
			holder = p.PID
		}
	}
	locked := func() bool {
		f, err := os.OpenFile(lock, os.O_RDWR, 0)
		must(t, err)
		defer f.Close()
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil
	}
	if !listens(port) || !locked() {
		t.Fatal("the orphan holds nothing")
	}
	aside := openOwner(t, custody.Options{Dir: dir, WithoutSweep: true})
	c := server(t, aside, port)
	c.Ports = []int{port}
	var held *custody.PortHeldError
	if err := c.Start(); !errors.As(err, &held) || held.PID != holder || held.Name != "n" {
		t.Errorf("refused by %v, want process %d", err, holder)
	}
	o := openOwner(t, custody.Options{Dir: dir})
	next := server(t, o, port)
	next.Ports, next.Name = []int{port}, "n"
	must(t, next.Start())
	if left := alive(t, pids); len(left) > 0 || locked() {
		t.Errorf("left %v, locked %v", left, locked())
	}
	must(t, next.Launch().WaitReady(ctx, custody.Ready{Port: port}))
}
