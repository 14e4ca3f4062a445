package container_test

// The test binary is every program of these tests that runs outside of a
// container: the helpers, and owners that are killed.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/container"
)

const orderVar = "CUSTODY_TEST_OWNER"

// order tells a played owner what to start.
type order struct {
	Dir   string
	Alone bool // without a helper
	Spec  container.Spec
	Sweep bool // sweep, and nothing else
}

func TestMain(m *testing.M) {
	var o order
	role := os.Getenv(orderVar)
	if role != "" {
		if err := json.Unmarshal([]byte(role), &o); err != nil {
			panic(err)
		}
	}
	if !o.Alone {
		custody.ServeHelper()
	}
	if role != "" {
		playOwner(o)
		os.Exit(0)
	}
	code := m.Run()
	endEngines()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// playOwner starts a container, says which, and waits for its death.
func playOwner(o order) {
	time.AfterFunc(time.Minute, func() { os.Exit(98) })
	if o.Sweep {
		rep, err := custody.Sweep(context.Background(), custody.SweepOptions{Dir: o.Dir})
		fmt.Println(len(rep.Launches), err)
		return
	}
	own, err := custody.Open(context.Background(), "test", &custody.Options{Dir: o.Dir, WithoutHelper: o.Alone, WithoutSweep: true})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	l, err := container.Start(context.Background(), own, o.Spec)
	if err != nil {
		fmt.Println("error", err)
		own.Close()
		os.Exit(1)
	}
	fmt.Println(l.ID())
	select {}
}

// owner is a played owner.
type owner struct {
	cmd *exec.Cmd
	id  string // of the launch; empty if it died before
}

// play starts an owner that starts a container, and waits until it has or is
// dead.
func play(t *testing.T, o order, env ...string) *owner {
	t.Helper()
	w, out := begin(t, o, env...)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		w.id = strings.TrimSpace(line)
	}
	if strings.HasPrefix(w.id, "error") {
		t.Fatal(w.id)
	}
	return w
}

// begin starts an owner that starts a container.
func begin(t *testing.T, o order, env ...string) (*owner, io.Reader) {
	t.Helper()
	b, err := json.Marshal(o)
	must(t, err)
	exe, err := os.Executable()
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, exe)
	c.Env = append(os.Environ(), append(env, orderVar+"="+string(b), "PATH=/nowhere")...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	w := &owner{cmd: c}
	t.Cleanup(w.kill)
	return w, out
}

// kill kills the owner and collects it.
func (w *owner) kill() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *custody.Owner {
	t.Helper()
	o, err := custody.Open(context.Background(), "test", &custody.Options{Dir: dir, WithoutSweep: true})
	must(t, err)
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return o
}

// spec is a container that runs the image's program with these arguments.
func (s *server) spec(args ...string) container.Spec {
	return container.Spec{Image: image, Command: args, Network: "none", Endpoint: s.endpoint, Grace: 20 * time.Second}
}

func start(t *testing.T, o *custody.Owner, spec container.Spec) *container.Launch {
	t.Helper()
	l, err := container.Start(context.Background(), o, spec)
	must(t, err)
	return l
}

// found is the launch of another owner, known by its id.
type found struct{ dir, id, container string }

func find(t *testing.T, dir, id string) found {
	t.Helper()
	st, err := custody.StatusOf(context.Background(), id, custody.ListOptions{Dir: dir})
	must(t, err)
	return found{dir, st.ID.String(), st.Container.ID}
}

func (f found) ContainerID() string { return f.container }

func (f found) Status(ctx context.Context) (custody.Status, error) {
	return custody.StatusOf(ctx, f.id, custody.ListOptions{Dir: f.dir})
}

func (f found) Stop(ctx context.Context) (custody.StopResult, error) {
	return custody.Stop(ctx, f.id, custody.StopOptions{Dir: f.dir})
}

func (f found) Exit(ctx context.Context) (custody.Exit, error) {
	return custody.Wait(ctx, f.id, custody.ListOptions{Dir: f.dir})
}

func (f found) Logs(ctx context.Context, opt container.LogOptions, out, errs io.Writer) error {
	return container.Logs(ctx, f.id, custody.ListOptions{Dir: f.dir}, opt, out, errs)
}

type logged interface {
	Logs(context.Context, container.LogOptions, io.Writer, io.Writer) error
}

// ready waits until the program in the container listens.
func ready(t *testing.T, l logged) {
	t.Helper()
	until(t, "the program is ready", func() bool {
		return strings.Contains(logs(t, l), "ready\n")
	})
}

func logs(t *testing.T, l logged) string {
	t.Helper()
	var out, errs bytes.Buffer
	must(t, l.Logs(context.Background(), container.LogOptions{}, &out, &errs))
	return out.String()
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// state is what the engine itself says of a container; empty if it knows none.
func (s *server) state(t *testing.T, id string) string {
	t.Helper()
	in, err := s.cli.ContainerInspect(context.Background(), id, client.ContainerInspectOptions{})
	if cerrdefs.IsNotFound(err) || err != nil && strings.Contains(err.Error(), "no such container") { // Podman, while it goes
		return ""
	}
	must(t, err)
	return string(in.Container.State.Status)
}

// ofScope lists the containers that carry a label.
func (s *server) labelled(t *testing.T, label string) []string {
	t.Helper()
	l, err := s.cli.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", label)})
	must(t, err)
	ids := []string{}
	for _, c := range l.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

// records lists the records below a state directory.
func records(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && strings.HasSuffix(path, ".json") && d.Name() != "owner.json" {
			out = append(out, path)
		}
		return err
	})
	must(t, err)
	return out
}

func sweep(t *testing.T, dir string) custody.SweepReport {
	t.Helper()
	rep, err := custody.Sweep(context.Background(), custody.SweepOptions{Dir: dir})
	must(t, err)
	return rep
}

// stranger runs a container that custody knows nothing of.
func (s *server) stranger(t *testing.T, name string, labels map[string]string) string {
	t.Helper()
	spec := s.spec("wait")
	c, err := s.cli.ContainerCreate(context.Background(), client.ContainerCreateOptions{Name: name,
		Config: stranger(spec, labels), HostConfig: hostNone()})
	must(t, err)
	t.Cleanup(func() {
		s.cli.ContainerRemove(context.Background(), c.ID, client.ContainerRemoveOptions{Force: true})
	})
	_, err = s.cli.ContainerStart(context.Background(), c.ID, client.ContainerStartOptions{})
	must(t, err)
	return c.ID
}
