package container_test

// Real engines, each started by the tests for themselves in a directory of
// their own, with a deadline of its own, and ended after them.

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// server is a running engine, with the image "inside" and one that wants
// another stop signal.
type server struct {
	name     string
	endpoint string
	cli      *client.Client
	cmd      *exec.Cmd
	done     chan struct{}
	dir      string
}

const (
	image     = "custody-test/inside:1"
	imageUSR1 = "custody-test/usr1:1"
)

// lifetime is when an engine ends by itself, whatever became of the tests.
const lifetime = "900"

var servers = struct {
	sync.Mutex
	up map[string]*server
}{up: map[string]*server{}}

// engines runs a test against each engine.
func engines(t *testing.T, f func(*testing.T, *server)) {
	for _, name := range []string{"docker", "podman"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, serve(t, name))
		})
	}
}

// serve returns the running engine of that name.
func serve(t *testing.T, name string) *server {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a container engine of the tests' own needs root")
	}
	servers.Lock()
	defer servers.Unlock()
	if s := servers.up[name]; s != nil {
		return s
	}
	// A short path: that of a socket has 107 bytes at most.
	dir, err := os.MkdirTemp("/tmp", "custody-"+name)
	must(t, err)
	s := &server{name: name, dir: dir, done: make(chan struct{})}
	sock := filepath.Join(dir, "s")
	s.endpoint = "unix://" + sock
	in := func(n string) string { return filepath.Join(dir, n) }
	switch name {
	case "docker":
		s.cmd = exec.Command("timeout", "-k", "20", lifetime, "dockerd", "--iptables=false", "--bridge=none",
			"--data-root", in("data"), "--exec-root", in("exec"), "-H", s.endpoint, "-p", in("pid"))
	case "podman":
		// Limits that it may set without CAP_SYS_RESOURCE, and Docker's
		// runtime: crun refuses a host that has both kinds of cgroups.
		conf := "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n"
		must(t, os.WriteFile(in("conf"), []byte(conf), 0o600))
		s.cmd = exec.Command("timeout", "-k", "20", lifetime, "podman", "--runtime", "runc", "--root", in("data"), "--runroot", in("run"),
			"--tmpdir", in("tmp"), "--cgroup-manager", "cgroupfs", "--events-backend", "file", "system", "service", "--time=0", s.endpoint)
		s.cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+in("conf"))
	}
	out, err := os.Create(in("log"))
	must(t, err)
	defer out.Close()
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = out, out, dir
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("%s can't be started; .ci/run installs it: %v", name, err)
	}
	go func() {
		s.cmd.Wait()
		close(s.done)
	}()
	s.cli, err = client.New(client.WithHost(s.endpoint))
	must(t, err)
	servers.up[name] = s
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		_, err := s.cli.Ping(context.Background(), client.PingOptions{})
		if err == nil {
			break
		}
		if dead := closed(s.done); dead || time.Now().After(end) {
			b, _ := os.ReadFile(in("log"))
			t.Fatalf("%s did not come up (ended: %v): %v\n%s", name, dead, err, b)
		}
	}
	s.imports(t)
	s.builds(t, imageUSR1, "STOPSIGNAL SIGUSR1")
	s.builds(t, "custody-test/bare:1", "ENTRYPOINT []")
	return s
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// inside is the program of the image, built once.
var inside = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "inside")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c := exec.Command("go", "build", "-o", filepath.Join(dir, "inside"), "./testdata/inside")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "inside"))
})

// imports makes an image of a root file system that is one static program.
func (s *server) imports(t *testing.T) {
	t.Helper()
	prog, err := inside()
	must(t, err)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Name: "inside", Mode: 0o755, Size: int64(len(prog))}))
	_, err = w.Write(prog)
	must(t, err)
	must(t, w.WriteHeader(&tar.Header{Name: "notes", Mode: 0o644}))
	must(t, w.Close())
	// The tag has no place in this call's options that is not deprecated.
	r, err := s.cli.ImageImport(context.Background(), client.ImageImportSource{Source: &b, SourceName: "-"}, image,
		client.ImageImportOptions{Changes: []string{`ENTRYPOINT ["/inside"]`}})
	must(t, err)
	_, err = io.Copy(io.Discard, r)
	must(t, errors.Join(err, r.Close()))
	_, err = s.cli.ImageInspect(context.Background(), image)
	must(t, err)
}

// builds makes another image of that one.
func (s *server) builds(t *testing.T, ref, change string) {
	t.Helper()
	file := "FROM " + image + "\n" + change + "\n"
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(file))}))
	_, err := w.Write([]byte(file))
	must(t, errors.Join(err, w.Close()))
	r, err := s.cli.ImageBuild(context.Background(), &b, client.ImageBuildOptions{Tags: []string{ref}})
	must(t, err)
	said, err := io.ReadAll(r.Body)
	must(t, errors.Join(err, r.Body.Close()))
	if _, err = s.cli.ImageInspect(context.Background(), ref); err != nil {
		t.Fatalf("build: %v: %s", err, said)
	}
}

// endEngines ends the engines that were started, and takes away what they
// mounted.
func endEngines() {
	if path, err := commandPath(); err == nil && len(servers.up) > 0 {
		os.RemoveAll(filepath.Dir(path))
	}
	for _, s := range servers.up {
		// What a failed test left; it would end by itself within a minute.
		if l, err := s.cli.ContainerList(context.Background(), client.ContainerListOptions{All: true}); err == nil {
			for _, c := range l.Items {
				s.cli.ContainerRemove(context.Background(), c.ID, client.ContainerRemoveOptions{Force: true})
			}
		}
		s.cli.Close()
		s.cmd.Process.Signal(syscall.SIGTERM) // timeout hands it on
		select {
		case <-s.done:
		case <-time.After(30 * time.Second):
			s.cmd.Process.Kill()
			<-s.done
		}
		unmountBelow(s.dir)
		os.RemoveAll(s.dir)
	}
}

// unmountBelow takes away what an engine mounted in its own directory, and
// left there.
func unmountBelow(dir string) {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	lines := strings.Split(string(b), "\n")
	slices.Reverse(lines) // the last one first
	for _, l := range lines {
		if f := strings.Fields(l); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			unix.Unmount(f[4], unix.MNT_DETACH)
		}
	}
}

// between stands between custody and an engine: it can be turned to another
// engine, go away, and lose answers.
type between struct {
	endpoint string

	mu   sync.Mutex
	to   *server // nil: nobody answers
	lose string  // the answer to requests whose path ends like this is lost, once
	lost int

	late  time.Duration // a create reaches the engine so much later, whether its asker lives or not
	asked chan struct{} // gets a token for each such one
	done  chan error    // and one when the engine has answered it
}

func stand(t *testing.T, to *server) *between {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "custody-between")
	must(t, err)
	sock := filepath.Join(dir, "s")
	l, err := net.Listen("unix", sock)
	must(t, err)
	b := &between{endpoint: "unix://" + sock, to: to, asked: make(chan struct{}, 9), done: make(chan error, 9)}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(b.to.endpoint, "unix://"))
		}},
		ModifyResponse: func(r *http.Response) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.lose != "" && strings.HasSuffix(r.Request.URL.Path, b.lose) {
				b.lose = ""
				b.lost++
				io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			}
			return nil
		},
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		down, late := b.to == nil, b.late
		b.mu.Unlock()
		if late > 0 && strings.HasSuffix(r.URL.Path, "/containers/create") {
			b.delay(r, late)
			panic(http.ErrAbortHandler)
		}
		if down {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close(); os.RemoveAll(dir) })
	return b
}

// delay hands a request on after some time.
func (b *between) delay(r *http.Request, late time.Duration) {
	body, _ := io.ReadAll(r.Body)
	b.asked <- struct{}{}
	time.Sleep(late)
	next := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(b.to.endpoint, "unix://"))
	}}}
	resp, err := next.Post("http://engine"+r.URL.RequestURI(), r.Header.Get("Content-Type"), bytes.NewReader(body))
	if err == nil {
		if resp.Body.Close(); resp.StatusCode != http.StatusCreated {
			err = errors.New(resp.Status)
		}
	}
	b.done <- err
}

func (b *between) turn(to *server) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = to
}
