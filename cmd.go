package custody

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Spec is what custody knows of a launch beyond the command. The zero value
// is the default launch: direct, dying with its owner, TERM then KILL.
type Spec struct {
	// Name, if set, is held exclusively in the scope until the tree is proven
	// gone, also across a crash of the owner. A start under a held name is
	// refused with an error that matches ErrNameHeld; with WaitName it waits,
	// within the command's context, until the name is free.
	Name     string
	WaitName bool

	// Replace stops the launch that holds the name, of whatever owner of the
	// scope, by its own plan, and waits until it is proven gone and its ports
	// and ours can be bound. Nothing is stopped if somebody else holds one of
	// ours. Of several starts that replace one launch at the same time, one
	// gets the name; the others are refused as above.
	Replace bool

	// Ports are TCP ports that the command is going to listen on, 64 at most.
	// Each is reserved for all scopes of the state directory until the tree is
	// proven gone, and must be free to bind on loopback and wildcard, as
	// servers bind (SO_REUSEADDR). What a dead owner of this state directory
	// left on one is ended first; any other holder is left alone, and the
	// start refused with a *PortHeldError that names it.
	Ports []int

	// Labels are the caller's own, kept in the record: 32 KiB of names and
	// values at most.
	Labels map[string]string

	// Phases is the stop plan; nil means DefaultPhases. Each phase is sent at
	// most once, however many callers stop the launch.
	Phases []Phase

	// DeathPhases is the stop plan for when the owner has died; nil means
	// Phases if set, else DefaultDeathPhases.
	DeathPhases []Phase

	// Hook, if set, runs first when the owner stops the launch: a goodbye in
	// the program's own protocol. It has HookTimeout (0 means 5 s); its error
	// is reported in an event and stops nothing.
	Hook        func(context.Context) error
	HookTimeout time.Duration

	// StopHook, if set, is a command that ends what the launch has other
	// services begin: a container, a job. Such work is no part of the tree and
	// gets no signal. The hook is recorded with the launch, so it runs whoever
	// ends it: once, before the first phase of a stop, or when the tree is
	// found gone, or after the KILL where nothing else was asked for; at a
	// sweep after the owner's death as well. It is not run for a start that
	// failed, nor after a release. If who runs it dies meanwhile, that is
	// reported as unknown, and it is not run again. Its failure stops nothing;
	// StopResult.StopHook tells it.
	//
	// It is no shell's command line. It runs in / with no input and with PATH,
	// HOME, USER, LANG and the user's bus of whoever ends the launch, and
	// CUSTODY_HOOK_LAUNCH, _SCOPE, _NAME and _EXIT (the leader's exit code or
	// signal, empty while it lives). What it leaves behind when it ends may be
	// ended with the tree. StopHookTimeout bounds it (0 means 10 s).
	StopHook        []string
	StopHookTimeout time.Duration

	// OnOwnerDeath says what becomes of the launch if the owner dies; empty
	// means Kill. Survive needs Kept.
	OnOwnerDeath OnOwnerDeath

	// Kept puts a keeper process between owner and command: parent and
	// subreaper of the tree, so that nothing can leave it (level lineage). It
	// costs one small process a launch.
	Kept bool

	// AcceptEnvironment starts a launch that survives although something here
	// may end it with its owner: the unit of a service manager, a login
	// session, PID 1. Otherwise that is looked for first (Linux), and refused
	// with an EnvironmentError where it is certain, told by an event of kind
	// Environment where it can't be told.
	AcceptEnvironment bool

	// ScopeUnit asks systemd for a transient scope unit around the launch (the
	// system's manager if we are root, else the user's), so that it does not
	// end with the unit we are in. The unit is called custody-ID.scope, holds
	// everything from before the command begins, and goes when that is gone.
	// Without such a manager the start fails, with an error that matches
	// errors.ErrUnsupported, and within 20 seconds if none answers. Needs Kept.
	ScopeUnit bool

	// Require refuses the start, before anything is run, unless at least this
	// level can be had. LevelPIDNS also asks for it: the command then runs in
	// a PID namespace of its own with a /proc of its own, under an init of
	// ours (needs Kept, and root or user namespaces).
	Require Level

	// Linger lets descendants live on after the leader exited; they stay
	// recorded and owned. Otherwise the leader's end is the tree's end.
	Linger bool

	// Log, if set, keeps what the command writes to its standard output and
	// standard error, where those are not set otherwise, in a log of bounded
	// size in the state directory; see Logs. It goes with the record. Needs
	// Kept.
	Log *LogSpec

	// TempDirs names private temporary directories owned by the launch: each
	// is made empty with mode 0700, exported as the variable of that name, put
	// in place of {NAME} in the arguments, and deleted after the tree is
	// proven gone.
	TempDirs []string

	// OwnDirs are existing directories taken into custody: each is marked
	// inside by a file .custody, and deleted after the tree is proven gone.
	// If Start fails, or a crash came before the leader was recorded, only
	// the mark is taken away.
	OwnDirs []string

	// HideArgs keeps the arguments out of the record; the program's name
	// stays.
	HideArgs bool

	// Terminal keeps the leader in our session, in a process group of its own,
	// so that it can be the foreground group of our controlling terminal.
	// Needs Kept. Package foreground sets it and does the rest.
	Terminal bool

	// Front gives that group the terminal before the command runs.
	Front bool
}

// LogSpec bounds a launch's log: at most MaxBytes × Files on disk. Zero values
// are 10 MiB and 5 files.
type LogSpec struct {
	MaxBytes int64 // of one file
	Files    int   // the newest one and those it was rotated to
}

// Cmd is a command about to be launched or launched. It has the fields and
// methods of exec.Cmd, with the same meaning, but where the doc says
// otherwise, and those of Spec. Make one with Owner.Command; it can't be
// reused after a start.
type Cmd struct {
	Path        string
	Args        []string
	Env         []string
	Dir         string
	Stdin       io.Reader
	Stdout      io.Writer
	Stderr      io.Writer
	ExtraFiles  []*os.File
	SysProcAttr *syscall.SysProcAttr

	// Process is the leader, once started. Its Signal and Kill go through a
	// proven handle.
	Process *Process

	// ProcessState is the leader's end, set by Wait.
	ProcessState *os.ProcessState

	// Err is a failure to find the program, as in exec.Cmd.
	Err error

	// Cancel, if set, is called when the command's context is done. Nil means
	// to stop the whole tree by its plan (exec.Cmd kills the leader).
	Cancel func() error

	// WaitDelay bounds how long Wait goes on copying output after the leader
	// exited, and, after the context is done, how long the leader has before
	// the tree is killed. As in exec.Cmd a positive one makes Wait return
	// exec.ErrWaitDelay when it cuts output off that ended well. Zero means
	// one second for whoever still holds the output then (exec.Cmd waits for
	// ever): that cut is no error but told by OutputCut. What was written by
	// the leader's exit is delivered however slow the writer is (Linux).
	WaitDelay time.Duration

	Spec

	owner  *Owner
	ctx    context.Context
	launch *Launch
	io     stdio
	waited bool
}

// Command returns a Cmd that runs name with the arguments, as exec.Command
// does.
func (o *Owner) Command(name string, arg ...string) *Cmd {
	e := exec.Command(name, arg...)
	return &Cmd{Path: e.Path, Args: e.Args, Err: e.Err, owner: o}
}

// CommandContext is Command with a context: when it is done before the command
// ends, the whole tree is stopped by its plan.
func (o *Owner) CommandContext(ctx context.Context, name string, arg ...string) *Cmd {
	if ctx == nil {
		panic("custody: nil Context")
	}
	c := o.Command(name, arg...)
	c.ctx = ctx
	return c
}

// String returns a readable form, as exec.Cmd's does.
func (c *Cmd) String() string {
	return (&exec.Cmd{Path: c.Path, Args: c.Args, Err: c.Err}).String()
}

// Environ returns the environment in which the command would run, without
// custody's own variables.
func (c *Cmd) Environ() []string { return (&exec.Cmd{Env: c.Env, Dir: c.Dir}).Environ() }

// Launch returns the launch, nil before Start.
func (c *Cmd) Launch() *Launch { return c.launch }

// OutputCut reports, after Wait, that somebody still held the output when it
// was cut off.
func (c *Cmd) OutputCut() bool { return c.io.cut.Load() }

// Start starts the command. Its record is on disk before user code runs; if it
// can't be written, nothing is run.
//
// Errors: *exec.Error or *fs.PathError as from exec.Cmd if the program can't
// be run; ErrLevel, ErrEnvironment, ErrNameHeld, ErrPortHeld, ErrClosed; else
// what could not be recorded, or why there is no scope unit.
func (c *Cmd) Start() error {
	if c.launch != nil {
		return errors.New("custody: already started")
	}
	if c.Err != nil {
		return c.Err
	}
	if c.ctx != nil && c.ctx.Err() != nil {
		return c.ctx.Err()
	}
	if err := c.owner.begin(); err != nil {
		c.io.abandon()
		return fmt.Errorf("start %s: %w", c.Path, err)
	}
	defer c.owner.starting.Done()
	files, err := c.io.open(c.Stdin, c.Stdout, c.Stderr)
	if err != nil {
		c.io.abandon()
		return err
	}
	l, err := c.owner.start(startArgs{
		ctx: c.ctx, spec: &c.Spec, path: c.Path, args: c.Args, env: c.Environ(), dir: c.Dir,
		std: files, extra: c.ExtraFiles, attr: c.SysProcAttr,
	})
	if err != nil {
		c.io.abandon()
		return err
	}
	c.launch = l
	c.Process = &Process{Pid: l.pid, l: l}
	c.io.copy()
	if c.ctx != nil {
		c.owner.tasks.Go(c.watchContext)
	}
	return nil
}

// watchContext stops the tree when the context is done.
func (c *Cmd) watchContext() {
	l := c.launch
	select {
	case <-l.exited:
		return
	case <-c.ctx.Done():
	}
	l.canceled.Store(true)
	if c.Cancel != nil {
		if err := c.Cancel(); errors.Is(err, os.ErrProcessDone) {
			l.canceled.Store(false)
		} else if err != nil {
			err = fmt.Errorf("custody: canceling Cmd: %w", err)
			l.cancelErr.Store(&err)
		}
	} else {
		l.stopLater(nil)
	}
	if c.WaitDelay > 0 {
		select {
		case <-l.exited:
		case <-time.After(c.WaitDelay):
			l.killLater()
		}
	}
}

// Wait waits for the leader to exit and for its output to be copied. The
// leader's end is the tree's end: what is left of the tree is stopped
// meanwhile and afterwards; Launch().Gone tells when it is gone.
//
// Errors: *exec.ExitError as from exec.Cmd; the context's error if it ended
// the command; exec.ErrWaitDelay as WaitDelay says; a copy's error.
func (c *Cmd) Wait() error {
	if c.launch == nil {
		return errors.New("custody: not started")
	}
	if c.waited {
		return errors.New("custody: Wait was already called")
	}
	c.waited = true
	l := c.launch
	<-l.exited
	c.ProcessState = l.state
	err := l.waitErr
	if l.canceled.Load() && (err == nil || isExit(err)) {
		if p := l.cancelErr.Load(); p != nil {
			if err == nil {
				err = *p
			}
		} else if c.Cancel == nil || err == nil {
			err = c.ctx.Err()
		}
	}
	if cerr := c.io.wait(c.WaitDelay); err == nil {
		err = cerr
	}
	return err
}

func isExit(err error) bool {
	var ee *exec.ExitError
	return errors.As(err, &ee)
}

// Run starts the command and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("custody: Stdout already set")
	}
	var out bytes.Buffer
	c.Stdout = &out
	var errOut *tail
	if c.Stderr == nil {
		errOut = &tail{most: 64 << 10}
		c.Stderr = errOut
	}
	err := c.Run()
	var ee *exec.ExitError
	if errOut != nil && errors.As(err, &ee) {
		ee.Stderr = errOut.Bytes()
	}
	return out.Bytes(), err
}

// CombinedOutput runs the command and returns its standard output and error
// together.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	if c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("custody: Stdout or Stderr already set")
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.Bytes(), err
}

// StdinPipe returns a pipe to the command's standard input; Wait closes it.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if c.Stdin != nil || c.launch != nil {
		return nil, errors.New("custody: StdinPipe: Stdin already set, or the command started")
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.Stdin = r
	c.io.child = append(c.io.child, r)
	c.io.parent = append(c.io.parent, w)
	return w, nil
}

// StdoutPipe returns a pipe from the command's standard output; Wait closes
// it, so read all before calling Wait.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return c.outPipe(&c.Stdout, "StdoutPipe") }

// StderrPipe is StdoutPipe for the standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return c.outPipe(&c.Stderr, "StderrPipe") }

func (c *Cmd) outPipe(w *io.Writer, what string) (io.ReadCloser, error) {
	if *w != nil || c.launch != nil {
		return nil, fmt.Errorf("custody: %s: already set, or the command started", what)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	*w = pw
	c.io.child = append(c.io.child, pw)
	c.io.parent = append(c.io.parent, pr)
	return pr, nil
}

// tail keeps the first half and the last half of what is written.
type tail struct {
	most       int
	head, last []byte
	skipped    int
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if room := t.most/2 - len(t.head); room > 0 {
		k := min(room, len(p))
		t.head = append(t.head, p[:k]...)
		p = p[k:]
	}
	t.last = append(t.last, p...)
	if over := len(t.last) - t.most/2; over > 0 {
		t.skipped += over
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return n, nil
}

func (t *tail) Bytes() []byte {
	if t.skipped == 0 {
		return append(t.head, t.last...)
	}
	return fmt.Appendf(t.head, "\n... omitting %d bytes ...\n%s", t.skipped, t.last)
}
