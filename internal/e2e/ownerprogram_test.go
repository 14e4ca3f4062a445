//go:build linux

// The owner: a small program around the library that does what it is asked, one
// line of JSON each way. It ends when its input does.

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/custody-project/custody"
	"golang.org/x/sys/unix"
)

// opening is the first thing the owner is told.
type opening struct {
	Dir          string
	Scope        string
	WithoutSweep bool
}

// spec describes a launch.
type spec struct {
	Args        []string
	Kept        bool
	Survive     bool // outlives its owner
	Name        string
	WaitName    bool
	TempDirs    []string
	OwnDirs     []string
	Phases      []string
	DefaultPlan bool // instead of the tests' plan
	Linger      bool
	Require     string
	Env         []string
	InPipe      bool   // keep a pipe to its input
	Out         string // "" nothing, "buffer" a writer, "pipe" a pipe read here, "file" one end of a pipe of ours
	WaitDelay   time.Duration
	HookFile    string // the hook makes this file
	StandardCmd bool   // start an exec.Cmd
	StopHook    []string
}

// request asks for one thing, answer tells what came of it.
type request struct {
	N      int
	Do     string // start, adopt, release, wait, stop, gone, members, events, launches, closeinput, limit, close, return
	Launch int
	Spec   spec
	Times  int
	Phases []string
	Within time.Duration
	Name   string // of the launch to adopt
}

type answer struct {
	N        int
	Err      string   `json:",omitempty"`
	Is       []string `json:",omitempty"` // which known errors it matches
	PID      int      `json:",omitempty"`
	ID       string   `json:",omitempty"`
	Level    string   `json:",omitempty"`
	Dirs     []string `json:",omitempty"`
	Code     int
	Signal   string `json:",omitempty"`
	Cut      bool   `json:",omitempty"`
	Output   string `json:",omitempty"`
	AfterEnd time.Duration
	Results  []custody.StopResult `json:",omitempty"`
	Members  []custody.Member     `json:",omitempty"`
	Events   []event              `json:",omitempty"`
	Swept    *custody.SweepReport `json:",omitempty"`
	Count    int
}

type event struct {
	Kind, Signal, Via, Err string
	PID                    int
}

type ownedLaunch struct {
	cmd   *custody.Cmd
	std   *exec.Cmd
	l     *custody.Launch
	in    io.WriteCloser
	out   syncBuffer
	ended time.Time // the leader's end, as soon as it was seen
	seen  chan struct{}
}

type ownerState struct {
	o        *custody.Owner
	mu       sync.Mutex
	enc      *json.Encoder
	events   []event
	launches []*ownedLaunch
}

func ownerProgram(args []string) {
	s := &ownerState{enc: json.NewEncoder(os.Stdout)}
	var op opening
	if err := json.Unmarshal([]byte(args[0]), &op); err != nil {
		panic(err)
	}
	o, err := custody.Open(context.Background(), op.Scope, &custody.Options{Dir: op.Dir, WithoutSweep: op.WithoutSweep,
		OnEvent: func(e custody.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			x := event{Kind: string(e.Kind), Signal: e.Signal, Via: e.Via, PID: e.PID}
			if e.Err != nil {
				x.Err = e.Err.Error()
			}
			s.events = append(s.events, x)
		}})
	first := answer{PID: os.Getpid()}
	if s.o = o; err != nil {
		first.fail(err)
	} else {
		rep := o.Swept()
		first.Swept, first.ID = &rep, o.ID().String()
	}
	s.reply(first)
	if err != nil {
		os.Exit(1)
	}
	in := json.NewDecoder(os.Stdin)
	for {
		var q request
		if err := in.Decode(&q); err != nil {
			os.Exit(0) // whoever runs the test is gone
		}
		switch q.Do {
		case "return": // from main, without a stop call
			return
		case "start": // launches are numbered in the order of their starts
			s.reply(s.do(q))
		default:
			go func() { s.reply(s.do(q)) }()
		}
	}
}

func (s *ownerState) reply(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enc.Encode(a)
}

func (a *answer) fail(err error) {
	if err == nil {
		return
	}
	a.Err = err.Error()
	for name, target := range map[string]error{
		"incomplete": custody.ErrIncomplete, "name": custody.ErrNameHeld, "level": custody.ErrLevel,
		"taken": custody.ErrTaken, "unknown": custody.ErrStatusUnknown, "closed": custody.ErrClosed,
		"wait-delay": exec.ErrWaitDelay, "deadline": context.DeadlineExceeded,
	} {
		if errors.Is(err, target) {
			a.Is = append(a.Is, name)
		}
	}
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		a.Is = append(a.Is, "exit")
	}
	var te *custody.TakenError
	if errors.As(err, &te) {
		a.PID = te.PID
	}
}

func (s *ownerState) do(q request) answer {
	a := answer{N: q.N}
	if q.Do == "start" {
		s.start(q.Spec, &a)
		return a
	}
	var l *ownedLaunch
	s.mu.Lock()
	if q.Launch < len(s.launches) {
		l = s.launches[q.Launch]
	}
	s.mu.Unlock()
	switch q.Do {
	case "adopt":
		s.adopt(q, &a)
	case "release":
		a.fail(l.l.Release(context.Background()))
	case "wait":
		s.wait(l, &a)
	case "stop":
		s.stop(l, q, &a)
	case "gone":
		select {
		case <-l.l.Gone():
			r, _ := l.l.Result()
			a.Results = []custody.StopResult{r}
		case <-time.After(q.Within):
			a.Err = "not gone"
		}
	case "members":
		ms, err := l.l.Members()
		a.Members = ms
		a.fail(err)
	case "events":
		s.mu.Lock()
		a.Events = append(a.Events, s.events...)
		s.mu.Unlock()
	case "launches":
		a.Count = len(s.o.Launches())
	case "output":
		a.Output = l.out.String()
	case "closeinput":
		a.fail(l.in.Close())
	case "limit": // of descriptors: what is open stays open
		lim := unix.Rlimit{Cur: uint64(q.Times), Max: 4096}
		a.fail(unix.Setrlimit(unix.RLIMIT_NOFILE, &lim))
	case "close":
		a.fail(s.o.Close())
	default:
		a.Err = "no request " + q.Do
	}
	return a
}

func phasesOf(list []string) []custody.Phase {
	var out []custody.Phase
	for _, p := range list {
		ph, err := custody.ParsePhase(p)
		if err != nil {
			panic(err)
		}
		out = append(out, ph)
	}
	return out
}

func (s *ownerState) start(sp spec, a *answer) {
	l := &ownedLaunch{seen: make(chan struct{})}
	cs := custody.Spec{Name: sp.Name, WaitName: sp.WaitName, Kept: sp.Kept, TempDirs: sp.TempDirs, OwnDirs: sp.OwnDirs,
		OnOwnerDeath: map[bool]custody.OnOwnerDeath{true: custody.Survive}[sp.Survive],
		Linger:       sp.Linger, Require: custody.Level(sp.Require), Phases: phasesOf(sp.Phases), StopHook: sp.StopHook}
	if sp.HookFile != "" {
		cs.Hook = func(context.Context) error { return os.WriteFile(sp.HookFile, []byte("bye"), 0o600) }
	}
	if sp.StandardCmd {
		l.std = exec.Command(sp.Args[0], sp.Args[1:]...)
		var err error
		if l.l, err = s.o.Start(l.std, cs); err != nil {
			a.fail(err)
			return
		}
	} else {
		c := s.o.Command(sp.Args[0], sp.Args[1:]...)
		l.cmd, c.Spec, c.WaitDelay = c, cs, sp.WaitDelay
		if len(sp.Env) > 0 {
			c.Env = append(os.Environ(), sp.Env...)
		}
		var mine *os.File // our copy of the command's end of our own pipe
		var err error
		switch sp.Out {
		case "buffer":
			c.Stdout, c.Stderr = &l.out, &l.out
		case "pipe":
			var r io.Reader
			if r, err = c.StdoutPipe(); err == nil {
				go io.Copy(&l.out, r)
			}
		case "file":
			var r *os.File
			if r, mine, err = os.Pipe(); err == nil {
				c.Stdout, c.Stderr = mine, mine
				go io.Copy(&l.out, r)
			}
		default:
			c.Stderr = os.Stderr
		}
		if sp.InPipe && err == nil {
			l.in, err = c.StdinPipe()
		}
		if err == nil {
			err = c.Start()
		}
		if mine != nil {
			mine.Close()
		}
		if err != nil {
			a.fail(err)
			return
		}
		l.l = c.Launch()
	}
	s.add(l, a)
}

// adopt takes a launch over, within a time if there is one.
func (s *ownerState) adopt(q request, a *answer) {
	ctx := context.Background()
	if q.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.Within)
		defer cancel()
	}
	got, err := s.o.Adopt(ctx, q.Name)
	if err != nil {
		a.fail(err)
		return
	}
	s.add(&ownedLaunch{l: got, seen: make(chan struct{})}, a)
}

// add takes up a launch and numbers it.
func (s *ownerState) add(l *ownedLaunch, a *answer) {
	go func() {
		<-l.l.Exited()
		l.ended = time.Now()
		close(l.seen)
	}()
	s.mu.Lock()
	s.launches = append(s.launches, l)
	a.Count = len(s.launches) - 1
	s.mu.Unlock()
	a.PID, a.ID, a.Level, a.Dirs = l.l.PID(), l.l.ID().String(), string(l.l.Level()), l.l.Dirs()
}

func (s *ownerState) wait(l *ownedLaunch, a *answer) {
	var state *os.ProcessState
	if l.cmd == nil && l.std == nil {
		var err error
		state, err = l.l.Wait(context.Background())
		a.fail(err)
	} else if l.std != nil {
		a.fail(l.std.Wait())
		state = l.std.ProcessState
	} else {
		a.fail(l.cmd.Wait())
		state, a.Cut = l.cmd.ProcessState, l.cmd.OutputCut()
	}
	now := time.Now()
	<-l.seen
	a.AfterEnd = now.Sub(l.ended)
	a.Output = l.out.String()
	if state != nil {
		a.Code = state.ExitCode()
		if ws := state.Sys().(syscall.WaitStatus); ws.Signaled() {
			a.Signal = custody.SignalName(ws.Signal())
		}
	}
}

// stop stops a launch by so many callers at once.
func (s *ownerState) stop(l *ownedLaunch, q request, a *answer) {
	n := max(q.Times, 1)
	results := make([]custody.StopResult, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if q.Phases != nil {
				results[i], errs[i] = l.l.StopWith(context.Background(), phasesOf(q.Phases))
			} else {
				results[i], errs[i] = l.l.Stop(context.Background())
			}
		})
	}
	wg.Wait()
	a.Results = results
	a.fail(errors.Join(errs...))
}

// syncBuffer is a buffer that is written while it is read.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
