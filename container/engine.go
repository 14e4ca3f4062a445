package container

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/custody-project/custody/internal/engine"
	"github.com/custody-project/custody/internal/ledger"
)

// The engine's side: what package engine asks of a client, over the Engine
// API. A connection for
// anything but looking lasts as long as one question.

func init() { engine.Register(dialer{}) }

type dialer struct{}

// Endpoint returns where the engine is found that Start uses by default:
// DOCKER_HOST, else the first of these sockets that is there: Docker's,
// Podman's of root, Podman's of the user.
func Endpoint() string {
	if h := os.Getenv("DOCKER_HOST"); h != "" {
		return h
	}
	paths := []string{"/var/run/docker.sock", "/run/podman/podman.sock"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		paths = append(paths, filepath.Join(dir, "podman/podman.sock"))
	}
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			return "unix://" + p
		}
	}
	return "unix://" + paths[0]
}

// Signal implements engine.Client.
func (dialer) Signal(ctx context.Context, c *ledger.Container, id, signal string) error {
	cli, err := connect(c.Endpoint)
	if err != nil {
		return err
	}
	defer cli.Close()
	kill := func() error {
		_, err := cli.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIG" + signal})
		return err
	}
	// One that is paused sees the signal only when it goes on, and an engine
	// may refuse to send it before. That it went on or ended meanwhile is no
	// failure.
	err = kill()
	if in, e := cli.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); e == nil && in.Container.State != nil && in.Container.State.Paused {
		cli.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		if err != nil {
			err = kill()
		}
	}
	if cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) { // gone, or it does not run
		return os.ErrProcessDone
	}
	return err
}

// Remove implements engine.Client.
func (dialer) Remove(ctx context.Context, c *ledger.Container, id string) error {
	cli, err := connect(c.Endpoint)
	if err != nil {
		return err
	}
	defer cli.Close()
	_, err = cli.ContainerRemove(ctx, id, client.ContainerRemoveOptions{RemoveVolumes: true})
	if cerrdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Wait implements engine.Client.
func (dialer) Wait(ctx context.Context, c *ledger.Container, id string) (*ledger.Exit, error) {
	cli, err := connect(c.Endpoint)
	if err != nil {
		return nil, err
	}
	defer cli.Close()
	ctx, cancel := context.WithCancel(ctx) // ends the client's own goroutine
	defer cancel()
	w := cli.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: api.WaitConditionNotRunning})
	select {
	case r := <-w.Result:
		if r.Error != nil {
			return nil, errors.New(r.Error.Message)
		}
		return exitOf(int(r.StatusCode)), nil
	case err := <-w.Error:
		if cerrdefs.IsNotFound(err) {
			return nil, nil
		}
		return nil, err
	}
}

// Logs implements engine.Client.
func (dialer) Logs(ctx context.Context, c *ledger.Container, id string, opt engine.LogOptions, stdout, stderr io.Writer) error {
	cli, err := connect(c.Endpoint)
	if err != nil {
		return err
	}
	defer cli.Close()
	in, err := cli.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	o := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: opt.Follow}
	if opt.Tail > 0 {
		o.Tail = strconv.Itoa(opt.Tail)
	}
	if !opt.Since.IsZero() {
		o.Since = opt.Since.Format(time.RFC3339Nano)
	}
	r, err := cli.ContainerLogs(ctx, id, o)
	if err != nil {
		return err
	}
	defer r.Close()
	if in.Container.Config != nil && in.Container.Config.Tty {
		_, err = io.Copy(stdout, r)
	} else {
		_, err = stdcopy.StdCopy(stdout, stderr, r)
	}
	return err
}
