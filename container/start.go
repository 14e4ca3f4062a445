package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/engine"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
)

// Spec is a container about to be started. Image is needed; every other zero
// value is a default. The environment is not recorded: secrets live there.
type Spec struct {
	Image      string   // must be there: custody pulls nothing
	Command    []string // nil: the image's own
	Entrypoint []string // nil: the image's own
	Env        []string // NAME=VALUE, added to the image's
	Dir        string   // where the command runs; empty: the image's own
	User       string   // empty: the image's own
	Mounts     []Mount
	Network    string // none, host, or a network's name; empty: the engine's default
	Memory     int64  // bytes; 0: no limit

	// Name, if set, is the launch's name, held exclusively in the owner's scope
	// until the container is removed, and the container's too. With WaitName a
	// start waits for the launch's name; it never waits for a stranger's
	// container. Empty: the container is named custody- and twelve digits of
	// the launch's id.
	Name     string
	WaitName bool

	// Replace stops the launch that holds the name first, and waits until it
	// and its ports are gone.
	Replace bool

	// Ports are TCP ports of this machine reserved for the launch: one is
	// refused that can't be bound. What the container does with them, by the
	// host's network or by Configure, is its own affair.
	Ports []int

	// Labels are the caller's own, in the record and on the container.
	Labels map[string]string

	// Grace is how long the image's stop signal (TERM, if it names none) may
	// take until KILL is sent; 0 means 10 s, and 1 s after the owner's death.
	// Phases and DeathPhases replace the whole plan.
	Grace       time.Duration
	Phases      []custody.Phase
	DeathPhases []custody.Phase

	// OnOwnerDeath says what becomes of it if the owner dies; empty means
	// custody.Kill. Surviving needs no keeper: the engine keeps it.
	OnOwnerDeath custody.OnOwnerDeath

	// Endpoint is the engine's: unix:///PATH. Empty: what Endpoint returns.
	Endpoint string

	// HideArgs keeps all but the image and the program's name out of the record.
	HideArgs bool

	// Configure, if set, may change what the engine is asked for in the
	// engine's own words: ports, devices, limits. Restart policy and automatic
	// removal are custody's, and so are the labels that begin with "custody.".
	Configure func(*api.Config, *api.HostConfig) `json:"-"`
}

// Mount shows a path of this machine inside the container.
type Mount struct {
	Source, Target string // absolute
	ReadOnly       bool
}

// Start makes the container and starts it on behalf of the owner.
//
// The error matches custody.ErrNameHeld if the name is a launch's (a
// *custody.NameHeldError) or another container's (a *NameError); fs.ErrNotExist
// if the program is not in the image; fs.ErrPermission if it can't be executed.
// Nothing is left of a start that failed, or it is still recorded.
func Start(ctx context.Context, o *custody.Owner, s Spec) (*Launch, error) {
	if ctx == nil {
		panic("container: nil Context")
	}
	l, err := start(ctx, o, s)
	if err != nil {
		return nil, fmt.Errorf("start container of %s: %w", s.Image, err)
	}
	return l, nil
}

func start(ctx context.Context, o *custody.Owner, s Spec) (*Launch, error) {
	if s.Image == "" {
		return nil, errors.New("no image is named")
	}
	if s.Endpoint == "" {
		s.Endpoint = Endpoint()
	}
	cli, err := connect(s.Endpoint)
	if err != nil {
		return nil, err
	}
	defer cli.Close()
	id, err := engineAt(ctx, s.Endpoint)
	if err != nil {
		return nil, err
	}
	for _, m := range s.Mounts {
		// Some engines make a missing one.
		if _, err := os.Stat(m.Source); err != nil {
			return nil, fmt.Errorf("mount: %w", err)
		}
	}
	img, err := cli.ImageInspect(ctx, s.Image)
	if cerrdefs.IsNotFound(err) {
		return nil, fmt.Errorf("the engine at %s has no such image; custody pulls none, pull it first", s.Endpoint)
	}
	if err != nil {
		return nil, err
	}
	cfg, hc := s.config()
	signal := cfg.StopSignal
	if signal == "" && img.Config != nil {
		signal = img.Config.StopSignal
	}
	phases, death := s.plan(signal)
	l, err := o.StartContainer(ctx, engine.Plan{
		Name: s.Name, WaitName: s.WaitName, Replace: s.Replace, Ports: s.Ports, Labels: s.Labels, Phases: phases, DeathPhases: death,
		OnOwnerDeath: s.onOwnerDeath(), Command: s.recorded(),
		Container: ledger.Container{Engine: id, Endpoint: s.Endpoint, Name: containerName(s.Name), Image: s.Image},
		Create: func(ctx context.Context, r *ledger.Record) (string, error) {
			s.label(cfg, r)
			return create(ctx, cli, cfg, hc, r.Container)
		},
		Begin: func(ctx context.Context, r *ledger.Record) error {
			_, err := cli.ContainerStart(ctx, r.Container.ID, client.ContainerStartOptions{})
			return s.startError(err)
		},
	})
	if err != nil {
		return nil, err
	}
	return launchOf(o, l), nil
}

func engineAt(ctx context.Context, endpoint string) (string, error) {
	to, err := sessionTo(ctx, endpoint)
	if err != nil {
		return "", err
	}
	defer to.done()
	to.doubt()
	id, _, err := to.engine(ctx)
	return id, err
}

// config is what the engine is asked for.
func (s *Spec) config() (*api.Config, *api.HostConfig) {
	cfg := &api.Config{Image: s.Image, Cmd: s.Command, Entrypoint: s.Entrypoint, Env: s.Env, WorkingDir: s.Dir, User: s.User}
	hc := &api.HostConfig{NetworkMode: api.NetworkMode(s.Network)}
	hc.Memory = s.Memory
	for _, m := range s.Mounts {
		hc.Mounts = append(hc.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	if s.Configure != nil {
		s.Configure(cfg, hc)
	}
	// Nobody but custody starts it again, or removes it with its exit status.
	hc.RestartPolicy, hc.AutoRemove = api.RestartPolicy{}, false
	return cfg, hc
}

// label puts the caller's labels and ours on the container. Only the launch's
// is evidence; the others are for people.
func (s *Spec) label(cfg *api.Config, r *ledger.Record) {
	all := map[string]string{}
	for _, more := range []map[string]string{cfg.Labels, s.Labels} {
		for k, v := range more {
			if !strings.HasPrefix(k, "custody.") {
				all[k] = v
			}
		}
	}
	all[ledger.LaunchLabel], all["custody.owner"], all["custody.scope"] = r.ID.String(), r.Owner.String(), r.Scope
	cfg.Labels = all
}

// plan makes the stop plans out of the image's stop signal.
func (s *Spec) plan(signal string) (phases, death []ledger.Phase) {
	sig := syscall.SIGTERM
	if n, err := strconv.Atoi(signal); err == nil && n > 0 && n <= 64 {
		sig = syscall.Signal(n)
	} else if v, err := stop.ParseSignal(signal); err == nil {
		sig = v
	}
	kill := custody.Phase{Signal: syscall.SIGKILL, Wait: 10 * time.Second}
	plan := func(grace time.Duration) []custody.Phase { return []custody.Phase{{Signal: sig, Wait: grace}, kill} }
	normal, last := plan(10*time.Second), plan(time.Second)
	if s.Grace > 0 {
		normal, last = plan(s.Grace), plan(s.Grace)
	}
	if s.Phases != nil {
		normal, last = s.Phases, s.Phases
	}
	if s.DeathPhases != nil {
		last = s.DeathPhases
	}
	return recordedPhases(normal), recordedPhases(last)
}

func recordedPhases(ps []custody.Phase) []ledger.Phase {
	out := make([]ledger.Phase, len(ps))
	for i, p := range ps {
		out[i] = ledger.Phase{Signal: stop.SignalName(p.Signal), Wait: p.Wait}
	}
	return out
}

func (s *Spec) onOwnerDeath() ledger.OnOwnerDeath {
	if s.OnOwnerDeath == "" {
		return ledger.Kill
	}
	return ledger.OnOwnerDeath(s.OnOwnerDeath)
}

// recorded is the command line as the record has it: the image, then what runs
// in it.
func (s *Spec) recorded() []string {
	args := append(append([]string{s.Image}, s.Entrypoint...), s.Command...)
	if s.HideArgs && len(args) > 2 {
		args = args[:2]
	}
	return args
}

// containerName is the container's name for a launch's, empty where engines
// take no such name.
func containerName(launch string) string {
	if len(launch) < 2 || strings.ContainsAny(launch, "@:+") {
		return ""
	}
	return launch
}

// create has the engine make the container. Whatever the engine answers, it has
// done then; only an answer that did not come leaves it open.
func create(ctx context.Context, cli *client.Client, cfg *api.Config, hc *api.HostConfig, c *ledger.Container) (string, error) {
	made, err := cli.ContainerCreate(ctx, client.ContainerCreateOptions{Config: cfg, HostConfig: hc, Name: c.Name})
	if err == nil {
		return made.ID, nil
	}
	if !answered(err) {
		return "", err
	}
	if found, e := byLabel(ctx, cli, c.Label); e != nil || len(found) > 0 {
		return "", err
	}
	if in, e := cli.ContainerInspect(ctx, c.Name, client.ContainerInspectOptions{}); e == nil && !cerrdefs.IsNotFound(err) {
		err = held(c.Name, in.Container, err)
	}
	return "", engine.Refused(err)
}

// answered reports whether the error is the engine's own answer.
func answered(err error) bool {
	for _, is := range []func(error) bool{cerrdefs.IsNotFound, cerrdefs.IsConflict, cerrdefs.IsAlreadyExists,
		cerrdefs.IsInvalidArgument, cerrdefs.IsPermissionDenied, cerrdefs.IsUnauthorized, cerrdefs.IsNotImplemented,
		cerrdefs.IsFailedPrecondition, cerrdefs.IsResourceExhausted, cerrdefs.IsInternal} {
		if is(err) {
			return true
		}
	}
	return false
}

// startError makes the engine's words for a program that can't be executed into
// the errors that os/exec has for it.
func (s *Spec) startError(err error) error {
	if err == nil {
		return nil
	}
	for said, is := range map[string]error{
		"executable file not found": fs.ErrNotExist, "no such file or directory": fs.ErrNotExist,
		"permission denied": fs.ErrPermission, "exec format error": fs.ErrPermission, "is a directory": fs.ErrPermission,
	} {
		if strings.Contains(strings.ToLower(err.Error()), said) {
			args := append(append(append([]string{}, s.Entrypoint...), s.Command...), s.Image)
			return &exec.Error{Name: args[0], Err: &execError{err, is}}
		}
	}
	return err
}

type execError struct {
	error
	is error
}

func (e *execError) Unwrap() error        { return e.error }
func (e *execError) Is(target error) bool { return target == e.is }

// NameError says which container holds a name that is not the launch's. It was
// left alone. It matches custody.ErrNameHeld.
type NameError struct {
	Name    string
	ID      string // of the container that holds it
	Image   string
	State   string // as the engine says: running, exited, …
	PID     int    // 0 if it does not run
	Command []string
	Launch  string // the launch that its label names, if it has one
}

func held(name string, in api.InspectResponse, cause error) error {
	if in.Config == nil || in.State == nil || strings.TrimPrefix(in.Name, "/") != name {
		return cause
	}
	return &NameError{Name: name, ID: in.ID, Image: in.Config.Image, State: string(in.State.Status), PID: in.State.Pid,
		Command: append([]string{in.Path}, in.Args...), Launch: in.Config.Labels[ledger.LaunchLabel]}
}

func (e *NameError) Error() string {
	whose := "which custody did not start"
	if e.Launch != "" {
		whose = "which is of launch " + e.Launch
	}
	pid := ""
	if e.PID != 0 {
		pid = fmt.Sprintf(", pid %d", e.PID)
	}
	return fmt.Sprintf("container name %q is held by container %.12s (image %s, %s%s, command %q), %s; it was left alone: choose another name, or remove it yourself",
		e.Name, e.ID, e.Image, e.State, pid, strings.Join(e.Command, " "), whose)
}

// Is matches custody.ErrNameHeld.
func (e *NameError) Is(target error) bool { return target == custody.ErrNameHeld }
