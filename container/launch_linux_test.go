package container_test

// One container's life against real engines: what runs, how it is stopped, and
// how its end is told.

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/container"
)

func stranger(s container.Spec, labels map[string]string) *api.Config {
	return &api.Config{Image: s.Image, Cmd: s.Command, Labels: labels}
}

func hostNone() *api.HostConfig { return &api.HostConfig{NetworkMode: "none"} }

func sent(r custody.StopResult) (names []string) {
	for _, s := range r.Signals {
		if s.Via == "engine" {
			names = append(names, s.Signal)
		}
	}
	return names
}

func TestStartStopRemove(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		o := open(t, dir)
		spec := s.spec("wait")
		spec.Name, spec.Labels = "one", map[string]string{"model": "small"}
		l := start(t, o, spec)
		ready(t, l)

		st, err := l.Status(context.Background())
		must(t, err)
		if st.State != custody.StateRunning || st.Container == nil || st.Container.State != "running" || st.PID <= 1 || st.Exit != nil {
			t.Errorf("status %+v", st)
		}
		in, err := s.cli.ContainerInspect(context.Background(), "one", client.ContainerInspectOptions{})
		must(t, err)
		want := map[string]string{"custody.launch": l.ID().String(), "custody.owner": o.ID().String(), "custody.scope": "test", "model": "small"}
		for k, v := range want {
			if in.Container.Config.Labels[k] != v {
				t.Errorf("label %s: %q, want %q", k, in.Container.Config.Labels[k], v)
			}
		}
		if in.Container.ID != l.ContainerID() {
			t.Errorf("container %s, the engine has %s", l.ContainerID(), in.Container.ID)
		}
		list, err := custody.List(context.Background(), custody.ListOptions{Dir: dir})
		must(t, err)
		if len(list.Launches) != 1 || list.Launches[0].Verdict != custody.Owned || list.Launches[0].State != "running" ||
			list.Launches[0].Level != custody.LevelContainer || list.Launches[0].Name != "one" {
			t.Errorf("listed: %+v", list)
		}
		xs, err := custody.Explain(context.Background(), "one", custody.ListOptions{Dir: dir})
		must(t, err)
		if len(xs) != 1 || xs[0].Verdict != custody.Owned || !xs[0].WouldSignal || !strings.Contains(xs[0].Reason, l.ContainerID()[:12]) {
			t.Errorf("explained: %+v", xs)
		}
		var out, errs bytes.Buffer
		must(t, l.Logs(context.Background(), container.LogOptions{Tail: 1}, &out, &errs))
		if out.String()+errs.String() != "ready\n" && out.String()+errs.String() != "to stderr\n" {
			t.Errorf("the last line: %q %q", out.String(), errs.String())
		}

		var all bytes.Buffer
		followed := make(chan error, 1)
		go func() {
			followed <- l.Logs(context.Background(), container.LogOptions{Follow: true}, &all, &errs)
		}()
		res, err := l.Stop(context.Background())
		must(t, err)
		if res.Outcome != "gone" || res.Verdict != custody.Gone || !slices.Equal(sent(res), []string{"TERM"}) || !slices.Equal(res.Freed, []string{"container one"}) {
			t.Errorf("stop: %+v", res)
		}
		<-followed
		text := "ready\ngot terminated\n"
		if s.name == "podman" {
			text = "ready\n" // it looks for more four times a second, and may miss the last of it
		}
		if !strings.HasPrefix(all.String(), text) {
			t.Errorf("it wrote %q", all.String())
		}
		if st := s.state(t, l.ContainerID()); st != "" {
			t.Errorf("the container is %s", st)
		}
		if r := records(t, dir); len(r) > 0 {
			t.Errorf("records: %v", r)
		}
		res, err = l.Stop(context.Background())
		if err != nil || res.Outcome != "gone" {
			t.Errorf("second stop: %+v, %v", res, err)
		}
		if x, err := l.Exit(context.Background()); err != nil || x != (custody.Exit{}) {
			t.Errorf("exit: %+v, %v", x, err)
		}
		select {
		case <-l.Gone():
		default:
			t.Error("it is not gone")
		}
		// Its name is free again.
		l = start(t, o, spec)
		ready(t, l)
		if _, err = l.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestGraceThenKill(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		o := open(t, filepath.Join(t.TempDir(), "state"))
		spec := s.spec("deaf")
		spec.Grace = 300 * time.Millisecond
		l := start(t, o, spec)
		ready(t, l)
		res, err := l.Stop(context.Background())
		must(t, err)
		if !slices.Equal(sent(res), []string{"TERM", "KILL"}) {
			t.Errorf("sent %v", sent(res))
		}
		if st := s.state(t, l.ContainerID()); st != "" {
			t.Errorf("the container is %s", st)
		}
	})
}

// An image that names its stop signal gets that one.
func TestImagesStopSignal(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		o := open(t, filepath.Join(t.TempDir(), "state"))
		spec := s.spec("wait")
		spec.Image = imageUSR1
		l := start(t, o, spec)
		ready(t, l)
		res, err := l.Stop(context.Background())
		must(t, err)
		if !slices.Equal(sent(res), []string{"USR1"}) {
			t.Errorf("sent %v", sent(res))
		}
	})
}

// A container that is paused is stopped too.
func TestPaused(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		o := open(t, filepath.Join(t.TempDir(), "state"))
		l := start(t, o, s.spec("wait"))
		ready(t, l)
		_, err := s.cli.ContainerPause(context.Background(), l.ContainerID(), client.ContainerPauseOptions{})
		must(t, err)
		res, err := l.Stop(context.Background())
		must(t, err)
		if !slices.Equal(sent(res), []string{"TERM"}) {
			t.Errorf("sent %v", sent(res))
		}
	})
}

func TestHowItEnded(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		o := open(t, filepath.Join(t.TempDir(), "state"))
		for name, c := range map[string]struct {
			args []string
			kill bool
			want custody.Exit
		}{
			"zero":   {args: []string{"exit", "0"}, want: custody.Exit{}},
			"seven":  {args: []string{"exit", "7", "300"}, want: custody.Exit{Code: 7}},
			"killed": {args: []string{"wait"}, kill: true, want: custody.Exit{Code: 137, Signal: "KILL"}},
		} {
			t.Run(name, func(t *testing.T) { s.ends(t, o, c.args, c.kill, c.want) })
		}
	})
}

// An engine may hear of the end before it hears of the memory, and Podman's
// does not hear of it at all where both kinds of cgroups are mounted: what it
// says is what counts.
func TestOutOfMemory(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		o := open(t, filepath.Join(t.TempDir(), "state"))
		want := custody.Exit{Code: 137, Signal: "KILL", OOM: true}
		for range 10 {
			l := start(t, o, s.eater())
			got, err := l.Exit(context.Background())
			must(t, err)
			in, err := s.cli.ContainerInspect(context.Background(), l.ContainerID(), client.ContainerInspectOptions{})
			must(t, err)
			if want.OOM = in.Container.State.OOMKilled; got != want {
				t.Errorf("exit: %+v, want %+v", got, want)
			}
			if want.OOM || s.name == "podman" {
				return
			}
		}
		t.Error("the engine never told that it was out of memory")
	})
}

func (s *server) eater() container.Spec {
	spec := s.spec("eat")
	spec.Memory = 32 << 20
	return spec
}

func (s *server) ends(t *testing.T, o *custody.Owner, args []string, kill bool, want custody.Exit) {
	l := start(t, o, s.spec(args...))
	if kill {
		ready(t, l)
		_, err := s.cli.ContainerKill(context.Background(), l.ContainerID(), client.ContainerKillOptions{Signal: "KILL"})
		must(t, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	got, err := l.Exit(ctx)
	if err != nil || got != want {
		t.Errorf("exit: %+v, %v; want %+v", got, err, want)
	}
	st, err := l.Status(ctx)
	if err != nil || st.State != custody.StateExited || st.Exit == nil || *st.Exit != want {
		t.Errorf("status: %+v, %v", st, err)
	}
	res, err := l.Stop(ctx)
	if err != nil || len(res.Signals) > 0 {
		t.Errorf("stop of one that has ended: %+v, %v", res, err)
	}
}

func TestWaitIsBounded(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		o := open(t, filepath.Join(t.TempDir(), "state"))
		l := start(t, o, s.spec("wait"))
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		if _, err := l.Exit(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
	})
}

// Nothing is left of a start that fails.
func TestFailedStart(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		o := open(t, dir)
		for name, c := range map[string]struct {
			change func(*container.Spec)
			is     error
			says   string
		}{
			"no image":       {func(s *container.Spec) { s.Image = "custody-test/nowhere:1" }, nil, "no such image"},
			"no program":     {func(s *container.Spec) { s.Entrypoint = []string{"/nowhere"} }, fs.ErrNotExist, ""},
			"no executable":  {func(s *container.Spec) { s.Entrypoint = []string{"/notes"} }, fs.ErrPermission, ""},
			"no bind source": {func(s *container.Spec) { s.Mounts = []container.Mount{{Source: "/nowhere/at/all", Target: "/x"}} }, nil, "/nowhere/at/all"},
			"no plan":        {func(s *container.Spec) { s.Phases = []custody.Phase{} }, nil, "phases"},
			"tcp":            {func(s *container.Spec) { s.Endpoint = "tcp://127.0.0.1:1" }, nil, "this machine"},
			"no engine":      {func(s *container.Spec) { s.Endpoint = "unix:///nowhere/s" }, nil, "/nowhere/s"},
		} {
			spec := s.spec("wait")
			spec.Name = "failing"
			c.change(&spec)
			before := time.Now()
			l, err := container.Start(context.Background(), o, spec)
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, %v", name, l, err)
			}
			t.Logf("%s after %v: %v", name, time.Since(before).Round(time.Millisecond), err)
			if r := records(t, dir); len(r) > 0 {
				t.Errorf("%s: records %v", name, r)
			}
			if ids := s.labelled(t, "custody.owner="+o.ID().String()); len(ids) > 0 {
				t.Errorf("%s: containers %v", name, ids)
			}
		}
		spec := s.spec("wait")
		spec.Name = "failing"
		start(t, o, spec) // the name is free
	})
}

// A launch's own name, and a container's of somebody else.
func TestNameIsHeld(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		o := open(t, dir)
		id := s.stranger(t, "taken", map[string]string{"mine": "yes"})
		spec := s.spec("wait")
		spec.Name = "taken"
		before := time.Now()
		_, err := container.Start(context.Background(), o, spec)
		var held *container.NameError
		if !errors.As(err, &held) || !errors.Is(err, custody.ErrNameHeld) {
			t.Fatalf("start: %v", err)
		}
		t.Logf("after %v: %v", time.Since(before), err)
		if held.ID != id || held.State != "running" || held.PID <= 1 || held.Launch != "" || !strings.Contains(strings.Join(held.Command, " "), "/inside wait") ||
			!strings.Contains(err.Error(), id[:12]) || !strings.Contains(err.Error(), "/inside wait") {
			t.Errorf("held: %+v: %v", held, err)
		}
		if st := s.state(t, id); st != "running" {
			t.Errorf("the stranger is %q", st)
		}
		if r := records(t, dir); len(r) > 0 {
			t.Errorf("records %v", r)
		}
		// It goes, and the name can be had.
		_, err = s.cli.ContainerRemove(context.Background(), id, client.ContainerRemoveOptions{Force: true})
		must(t, err)
		l := start(t, o, spec)
		_, err = container.Start(context.Background(), o, spec)
		var launch *custody.NameHeldError
		if !errors.As(err, &launch) || launch.Holder != l.ID() {
			t.Errorf("start: %v", err)
		}
		// Another scope has other names, but the engine has one room.
		other, err := custody.Open(context.Background(), "other", &custody.Options{Dir: dir})
		must(t, err)
		defer other.Close()
		if _, err = container.Start(context.Background(), other, spec); !errors.As(err, &held) || held.Launch != l.ID().String() {
			t.Errorf("start: %v", err)
		}
		if st := s.state(t, l.ContainerID()); st != "running" {
			t.Errorf("the launch's container is %q", st)
		}
	})
}

func TestCloseStops(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		o, err := custody.Open(context.Background(), "test", &custody.Options{Dir: dir})
		must(t, err)
		dies := start(t, o, s.spec("wait"))
		spec := s.spec("wait")
		spec.OnOwnerDeath = custody.Survive
		lives := start(t, o, spec)
		must(t, o.Close())
		if st := s.state(t, dies.ContainerID()); st != "" {
			t.Errorf("the container that is to die with its owner is %q", st)
		}
		if st := s.state(t, lives.ContainerID()); st != "running" {
			t.Errorf("the container that is to survive is %q", st)
		}
		_, err = custody.Stop(context.Background(), lives.ID().String(), custody.StopOptions{Dir: dir})
		must(t, err)
		if st := s.state(t, lives.ContainerID()); st != "" {
			t.Errorf("the stopped container is %q", st)
		}

	})
}
