package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

type startFlags struct {
	launchFlags
	readyFlags
	containerFlags
	linger   bool
	owner    string
	logSize  int64
	logFiles int
	accept   bool
	scope    bool
}

func startCommand() *cobra.Command {
	var f startFlags
	c := &cobra.Command{
		Use:   "start [flags] -- COMMAND [ARGUMENT...]",
		Short: "Start a command in the background that outlives us, and can be found, taken over and stopped for certain",
		Long: `Start a command in the background. It goes on when this process and its parent
end; a small keeper stays above it, collects what it orphans and writes down how
it ends. Its output goes to a log of bounded size.

start returns once the command was executed and its record is complete, and
prints it. From then on 'custody status', 'logs', 'wait' and 'stop' know it by
its id or name. When the command has ended what is left of its tree is stopped;
how it ended is kept for a day, of the last 20 of its name.

Where something here would end it with its owner, the unit of a service manager
or a PID 1 that ends with us, start refuses, with the reason and the remedy;
where that can't be told it warns. 'custody doctor' shows what is here.

--port reserves a port: it must be free to bind on loopback and wildcard, and
no other launch gets it until this one is gone. What a dead owner left on it is
ended first; anybody else who holds it is named and left alone.

--ready waits until the launch can be used, and more than one may be given:

  port        every --port has a listener, proven to be of this launch
  port:N      this port has
  http://…    a GET is answered with a status of 200 to 299 by such a listener;
              the URL names this host, and redirects are not followed
  log:REGEXP  a line of its log matches

An answer of a predecessor that is dying, or of a stranger on the port, does not
count. start fails at once when the command ends or a stranger has the port,
stops what it started and tells why; --keep-unready leaves it running.

--container starts a container of an image instead, by the Docker or Podman that
DOCKER_HOST or its usual socket names. It needs no keeper: its engine holds its
output and how it ends, until 'custody stop' removes it, or a sweep after it has
ended. A container of the same name that is not ours is named and left alone.

125 means custody failed or the launch did not become ready, 126 that the
command can't be executed, 127 that it was not found. Nothing runs then, unless
the error says that it does.`,
		Example: `  custody start --name llama --port 8000 --ready http://127.0.0.1:8000/health -- llama-server --port 8000
  custody start --name llama --port 8000 --ready port --replace -- llama-server --port 8000
  custody start --name db --own-dir /srv/scratch/db -- postgres -D /srv/scratch/db
  custody start --scope-unit --name worker -- ./worker
  custody start --owner $$ --json -- ./engine
  custody start --container model-server:3 --name llama --network host --port 8000`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return start(c.Context(), f, args)
		},
	}
	fl := c.Flags()
	fl.SetInterspersed(false)
	f.launchFlags.add(c)
	fl.BoolVar(&f.linger, "linger", false, "let descendants live on after the command has ended")
	fl.Int64Var(&f.logSize, "log-size", 0, "rotate the log at this many `BYTES` (default 10485760)")
	fl.IntVar(&f.logFiles, "log-files", 0, "keep this `NUMBER` of log files (default 5)")
	fl.BoolVar(&f.scope, "scope-unit", false, "give it a transient scope unit of systemd's, so that it does not end with the unit we are in")
	fl.BoolVar(&f.accept, "accept-environment", false, "start it although a service unit, a login session or PID 1 may end it")
	fl.StringVar(&f.owner, "owner", "", "let this process own the launch as long as it lives: a `PID`, or parent (default: nobody, who adopts it first)")
	f.readyFlags.add(c)
	f.containerFlags.add(c)
	return c
}

func start(ctx context.Context, f startFlags, args []string) error {
	if len(args) == 0 && f.image == "" {
		return errors.New("start: no command; write it after --, as in 'custody start -- ./server'")
	}
	spec, err := f.launchFlags.spec()
	if err != nil {
		return err
	}
	spec.OnOwnerDeath, spec.Linger = custody.Survive, f.linger
	spec.Log = &custody.LogSpec{MaxBytes: f.logSize, Files: f.logFiles}
	spec.ScopeUnit, spec.AcceptEnvironment = f.scope, f.accept
	if slices.Contains(f.ready, "port") && len(f.ports) == 0 {
		return errors.New("ready port: which one? reserve it with --port, or name it, as in --ready port:8000")
	}
	ready, err := f.conditions()
	if err != nil {
		return err
	}
	pid := 0
	if f.owner != "" {
		if pid, err = ownerPID(f.owner); err != nil {
			return err
		}
		// Before anything runs: afterwards there would be a launch of nobody's.
		if err := custody.CanOwn(pid); err != nil {
			return fmt.Errorf("owner: %w; name a process that lives, or parent", err)
		}
	}
	o, err := f.open(ctx, "start")
	if err != nil {
		return err
	}
	begin := f.startCommand
	if f.image != "" {
		begin = func(ctx context.Context, o *custody.Owner, spec custody.Spec, args []string) (custody.ID, error) {
			return f.containerFlags.start(ctx, o, f.launchFlags, spec, args)
		}
	}
	p := newProgress(f.verbose)
	p.waitFor("the start")
	if f.replace {
		p.waitFor(f.name + " and its ports to be free")
	}
	id, err := begin(ctx, o, spec, args)
	p.done()
	if err != nil {
		return err
	}
	if pid != 0 {
		// Before it is waited for: should that process be killed meanwhile, whoever
		// comes after it must not find the launch taken by us.
		if err := o.Close(); err != nil {
			return err
		}
		opt := custody.AdoptOptions{Dir: global.dir, AllowNetworkFS: global.net, PID: pid}
		if _, err := custody.Adopt(ctx, id.String(), opt); err != nil {
			return fmt.Errorf("%w; the launch runs, 'custody stop %s' ends it", err, id.Short())
		}
	}
	notReady := f.await(ctx, id, ready)
	if err := errors.Join(notReady, o.Close()); err != nil {
		return err
	}
	return printStatus(ctx, id.String())
}

// startCommand starts a command of ours.
func (f *startFlags) startCommand(_ context.Context, o *custody.Owner, spec custody.Spec, args []string) (custody.ID, error) {
	cmd := f.command(o, spec, args)
	if err := cmd.Start(); err != nil {
		o.Close()
		return custody.ID{}, startError(err)
	}
	return cmd.Launch().ID(), nil
}

// ownerPID reads the process on whose behalf something is owned.
func ownerPID(s string) (int, error) {
	if s == "parent" {
		return os.Getppid(), nil
	}
	pid, err := strconv.Atoi(s)
	if err != nil || pid < 1 {
		return 0, fmt.Errorf("owner %.40q: want the pid of a process, or parent", s)
	}
	return pid, nil
}
