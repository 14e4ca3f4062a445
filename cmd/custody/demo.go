package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

// The demo claims nothing that it did not check: each claim is a line of its
// report, and one that does not hold is its failure.

func demoCommand() *cobra.Command {
	return &cobra.Command{
		Use: "demo", Short: "See it work: a real tree, its owner killed, and what is left",
		Long: `demo builds a real tree: workers that ignore TERM, and one process that escaped
by double fork and setsid with an empty environment. Beside it lives a stranger
with the very same command line. Then it kills the owner with KILL, and shows
that the whole tree is gone, that the stranger lives, and why custody could tell
them apart.

It takes a few seconds, needs no root, keeps to a private temporary directory
that it deletes, and ends everything it starts. It exits with 0 only if every
claim was checked and holds.`,
		Args: none, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			// A reader that has seen enough must not keep us from cleaning up.
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			ctx, cancel := context.WithTimeout(ctx, demoLife-3*time.Second)
			defer cancel()
			return runDemo(ctx)
		},
	}
}

// claim is one thing that the demo says, and whether it was seen to hold.
type claim struct {
	Claim string `json:"claim"`
	Holds bool   `json:"holds"`
}

// demo is the stage, and the report under --json.
type demo struct {
	OK          bool                  `json:"ok"`
	Owner       int                   `json:"owner_pid"`
	Launch      string                `json:"launch"`
	Level       custody.Level         `json:"level"`
	Members     []int                 `json:"members"`
	Escapee     int                   `json:"escapee_pid"`
	Stranger    int                   `json:"stranger_pid"`
	GoneAfterMS int64                 `json:"gone_after_ms"`
	Explained   []custody.Explanation `json:"explained"` // escapee and stranger, before the kill
	Claims      []claim               `json:"claims"`

	base     string
	owner    *exec.Cmd
	ownerErr bytes.Buffer  // to be read once the owner is gone
	gone     chan struct{} // closed then
	stranger *exec.Cmd
	before   custody.LaunchInfo
	deaf     []int               // members that ignore TERM
	handles  map[int]*os.Process // opened while the members lived
}

func runDemo(ctx context.Context) (err error) {
	d := &demo{handles: map[int]*os.Process{}}
	defer func() {
		if cerr := d.cleanUp(); err == nil && cerr != nil {
			err = fmt.Errorf("demo: clean up: %w", cerr)
		}
	}()
	for _, act := range []func(context.Context) error{d.build, d.tellApart, d.killOwner, d.lookAgain} {
		if err := act(ctx); err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w; everything it started was ended", err)
			}
			return fmt.Errorf("demo: %w", err)
		}
	}
	return d.conclude()
}

// tell narrates. Under --json the report is the story.
func (d *demo) tell(format string, v ...any) {
	if !global.json {
		out.printf(format+"\n", v...)
	}
}

func (d *demo) claim(holds bool, format string, v ...any) {
	d.Claims = append(d.Claims, claim{fmt.Sprintf(format, v...), holds})
}

// build starts the stranger, the owner and its tree, and waits until each
// process has taken its shape.
func (d *demo) build(ctx context.Context) (err error) {
	if d.base, err = os.MkdirTemp("", "custody-demo-"); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(d.base, "notes"), 0o700); err != nil {
		return err
	}
	args := demoArgs("owner", d.base)
	d.owner = exec.Command(args[0], args[1:]...)
	d.owner.Stderr = &d.ownerErr
	d.owner.WaitDelay = time.Second // its keeper holds the stream longer
	// The other end closes with us, however we end: then the owner closes too.
	if _, err = d.owner.StdinPipe(); err != nil {
		return err
	}
	if err := d.owner.Start(); err != nil {
		return err
	}
	d.Owner = d.owner.Process.Pid
	d.gone = make(chan struct{})
	go func() {
		d.owner.Wait()
		close(d.gone)
	}()
	d.stranger = demoEscape("escapee", d.base)
	// It cleans up if we are killed after the owner was.
	if _, err = d.stranger.StdinPipe(); err != nil {
		return err
	}
	if err := d.stranger.Start(); err != nil {
		return err
	}
	d.Stranger = d.stranger.Process.Pid
	if err := d.wait(ctx, 20*time.Millisecond, "the tree did not take its shape", d.built); err != nil {
		return err
	}
	d.Launch, d.Level = d.before.ID.String(), d.before.Level
	for _, m := range d.before.Members {
		d.Members = append(d.Members, m.PID)
		if p, err := os.FindProcess(m.PID); err == nil {
			d.handles[m.PID] = p
		}
	}

	d.tell("%s", out.bold("1. An owner starts a tree."))
	d.tell("The owner is process %d. Its tree has %d processes, of which %d ignore TERM.", d.Owner, len(d.Members), len(d.deaf))
	d.tell("Process %d has escaped: double fork, setsid, empty environment.", d.Escapee)
	d.tell("Process %d is a stranger with the very same command line as process %d.", d.Stranger, d.Escapee)
	d.tell("The tree owns the directory %s\n", d.dir())
	if !global.json {
		out.tree(scopesOf([]custody.LaunchInfo{d.before}))
	}
	d.tell("")
	return nil
}

// built reports whether every process is there and ready.
func (d *demo) built(ctx context.Context) (bool, error) {
	select {
	case <-d.gone:
		why := strings.TrimPrefix(strings.TrimSpace(d.ownerErr.String()), "custody: demo: owner: ")
		return false, fmt.Errorf("the owner could not start its tree: %s; 'custody doctor' shows what is missing", why)
	default:
	}
	l, err := custody.List(ctx, custody.ListOptions{Dir: demoState(d.base)})
	if err != nil || len(l.Launches) != 1 {
		return false, err
	}
	d.before = l.Launches[0]
	d.deaf = nil
	if len(d.before.Members) != 4 || !demoNoted(d.base, "ready", d.Stranger) {
		return false, nil
	}
	for _, m := range d.before.Members {
		if !demoNoted(d.base, "ready", m.PID) {
			return false, nil
		}
		switch {
		case slices.Contains(m.Command, "escapee"):
			d.Escapee = m.PID
			fallthrough
		case slices.Contains(m.Command, "worker"):
			d.deaf = append(d.deaf, m.PID)
		}
	}
	return d.Escapee != 0, nil
}

func (d *demo) dir() string {
	if len(d.before.Dirs) == 0 {
		return ""
	}
	return d.before.Dirs[0]
}

// tellApart explains the escapee and its double.
func (d *demo) tellApart(ctx context.Context) error {
	d.tell("%s", out.bold("2. Which of the two is ours? The command line can't tell. The kernel can."))
	for _, pid := range []int{d.Escapee, d.Stranger} {
		x, err := d.explain(ctx, pid)
		if err != nil {
			return err
		}
		d.Explained = append(d.Explained, x)
		if !global.json {
			out.explanation(x)
			out.printf("\n")
		}
	}
	e, s := d.Explained[0], d.Explained[1]
	d.claim(slices.Equal(e.Command, s.Command) && len(e.Command) > 0, "escapee and stranger have the very same command line")
	d.claim(e.Verdict == custody.Owned && e.WouldSignal, "the escapee, process %d, is proven to be owned", d.Escapee)
	d.claim(s.Verdict == custody.Foreign && !s.WouldSignal, "the stranger, process %d, is told to be foreign", d.Stranger)
	return nil
}

func (d *demo) explain(ctx context.Context, pid int) (custody.Explanation, error) {
	xs, err := custody.Explain(ctx, strconv.Itoa(pid), custody.ListOptions{Dir: demoState(d.base)})
	if err != nil {
		return custody.Explanation{}, err
	}
	return xs[0], nil
}

// killOwner kills the owner and waits for the end of the tree by handles of
// its own, not by what custody says.
func (d *demo) killOwner(ctx context.Context) error {
	alive := 0
	for _, p := range d.handles {
		if p.Signal(syscall.Signal(0)) == nil {
			alive++
		}
	}
	d.claim(alive == len(d.Members), "all %d members were alive before the owner was killed", len(d.Members))
	d.tell("%s", out.bold(fmt.Sprintf("3. kill -9 %d: the owner is gone, and no line of its code ran.", d.Owner)))
	began := time.Now()
	if err := d.owner.Process.Kill(); err != nil {
		return err
	}
	err := d.wait(ctx, time.Millisecond, "members outlived their owner", func(context.Context) (bool, error) {
		for _, p := range d.handles {
			if !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
				return false, nil
			}
		}
		return true, nil
	})
	d.GoneAfterMS = time.Since(began).Milliseconds()
	if err != nil {
		return err
	}
	asked := 0
	for _, pid := range d.deaf {
		if demoNoted(d.base, "asked", pid) {
			asked++
		}
	}
	d.claim(asked == len(d.deaf), "%d members were asked by TERM first, and ignored it", len(d.deaf))
	d.claim(true, "%d ms after the owner the last of its %d members was gone", d.GoneAfterMS, len(d.Members))
	d.tell("Its keeper saw it die and ran the stop plan: TERM to every member, %d ms for", demoGrace.Milliseconds())
	d.tell("those who listen, then KILL. After %d ms the last of the %d members was gone.\n", d.GoneAfterMS, len(d.Members))
	return nil
}

// lookAgain shows what is left: no tree, no record, no directory, and the
// stranger as it was.
func (d *demo) lookAgain(ctx context.Context) error {
	d.tell("%s", out.bold("4. What is left?"))
	err := d.wait(ctx, 20*time.Millisecond, "the record did not end", func(ctx context.Context) (bool, error) {
		l, err := custody.List(ctx, custody.ListOptions{Dir: demoState(d.base)})
		return err == nil && len(l.Launches) == 0, err
	})
	d.claim(err == nil, "its record has ended, so the tree is empty")
	if err != nil {
		return err
	}
	d.tell("demo")
	d.tell("%s nothing is owned", out.mark("└─", "`-"))
	_, err = os.Stat(d.dir())
	d.claim(errors.Is(err, os.ErrNotExist), "the directory %s is gone, after its last member", d.dir())
	alive := d.stranger.Process.Signal(syscall.Signal(0)) == nil
	d.claim(alive, "the stranger, process %d, lives", d.Stranger)
	asked := demoNoted(d.base, "asked", d.Stranger)
	d.claim(!asked, "no signal asked the stranger to end")
	if alive && !asked {
		d.tell("\nThe stranger, process %d, lives, and no signal asked it to end.", d.Stranger)
	}
	for _, pid := range []int{d.Escapee, d.Stranger} {
		x, err := d.explain(ctx, pid)
		switch {
		case errors.Is(err, os.ErrProcessDone):
			d.tell("process %d is gone: there is no such process, and no record names it any more", pid)
		case err != nil:
			return err
		default:
			d.tell("%s", out.verdictLine(x))
		}
	}
	return nil
}

// wait polls until f is true.
func (d *demo) wait(ctx context.Context, pause time.Duration, what string, f func(context.Context) (bool, error)) error {
	for {
		ok, err := f(ctx)
		if ok && err == nil {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return errors.New("interrupted")
			}
			return errors.New(what + " in time")
		case <-time.After(pause):
		}
	}
}

// conclude reports the claims.
func (d *demo) conclude() error {
	bad := 0
	for _, c := range d.Claims {
		if !c.Holds {
			bad++
		}
	}
	d.OK = bad == 0
	if global.json {
		if err := printJSON(d); err != nil {
			return err
		}
	} else {
		out.printf("\n%s\n", out.bold("checked"))
		for _, c := range d.Claims {
			a := custody.No
			if c.Holds {
				a = custody.Yes
			}
			out.printf("  %s %s\n", out.answer(a), c.Claim)
		}
	}
	if bad > 0 {
		return &exitError{exitIncomplete, fmt.Errorf("demo: %s did not hold", count(bad, "claim", "claims"))}
	}
	d.tell("\nNow your own: custody run -- COMMAND, and custody tree in another terminal.")
	return nil
}

// cleanUp ends whatever is left and deletes the demo's directory.
func (d *demo) cleanUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	if d.stranger != nil && d.stranger.Process != nil {
		d.stranger.Process.Kill()
		d.stranger.Wait()
	}
	if d.gone != nil {
		d.owner.Process.Kill()
		<-d.gone
	}
	if d.base == "" {
		return nil
	}
	// After a demo that went well there is nothing to sweep.
	custody.Sweep(ctx, custody.SweepOptions{Dir: demoState(d.base)})
	return os.RemoveAll(d.base)
}
