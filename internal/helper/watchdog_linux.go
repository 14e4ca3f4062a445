package helper

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

type watchdogArgs struct {
	State    string   `json:"state"`
	Scope    string   `json:"scope"`
	Owner    proof.ID `json:"owner"`
	OwnerPID int      `json:"owner_pid"`
	Network  bool     `json:"network"`
}

// File descriptors of a watchdog.
const (
	watchdogControl = 3 // read end: "bye" when the owner closes
	watchdogOwner   = 4 // pidfd of the owner
	watchdogReady   = 5 // write end: one byte once the owner is watched
)

// Watchdog is an owner's handle of its watchdog.
type Watchdog struct {
	PID     int
	control *os.File
	done    chan struct{}
}

// StartWatchdog starts the watchdog of an owner and returns once it watches.
// self is a handle of this process.
func (b Binary) StartWatchdog(store *ledger.Store, o *ledger.Owner, self *host.Process, network bool) (*Watchdog, error) {
	c, err := b.command("watchdog", watchdogArgs{
		State: store.Path(), Scope: o.Scope, Owner: o.ID, OwnerPID: os.Getpid(), Network: network,
	}, "of", fmt.Sprint(os.Getpid()), "scope", o.Scope)
	if err != nil {
		return nil, err
	}
	ctlR, ctlW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ctlR.Close()
	readyR, readyW, err := os.Pipe()
	if err != nil {
		ctlW.Close()
		return nil, err
	}
	defer readyR.Close()
	pidfd, err := selfFile(self)
	if err != nil {
		ctlW.Close()
		readyW.Close()
		return nil, err
	}
	defer pidfd.Close()
	c.ExtraFiles = []*os.File{ctlR, pidfd, readyW}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	CleanMask(func() { err = c.Start() })
	readyW.Close()
	if err != nil {
		ctlW.Close()
		return nil, fmt.Errorf("start watchdog: %w", err)
	}
	w := &Watchdog{PID: c.Process.Pid, control: ctlW, done: make(chan struct{})}
	go func() {
		c.Wait()
		close(w.done)
	}()
	readyR.SetReadDeadline(time.Now().Add(comeUp))
	if _, err := io.ReadFull(readyR, make([]byte, 1)); err != nil {
		ctlW.Close()
		c.Process.Kill() // a late one would be nobody's
		select {
		case <-w.done:
		case <-time.After(5 * time.Second):
		}
		return nil, fmt.Errorf("start watchdog: it did not come up: %w", err)
	}
	return w, nil
}

// comeUp is how long a watchdog may take until it watches.
var comeUp = 30 * time.Second

// Done is closed when the watchdog has ended.
func (w *Watchdog) Done() <-chan struct{} { return w.done }

// Dismiss tells the watchdog that the owner closes, and waits for its end.
func (w *Watchdog) Dismiss() {
	w.control.Write([]byte("bye"))
	w.control.Close()
	<-w.done
}

// deaf ignores the signals of a terminal and of a service manager: they are
// meant for the owner. A helper goes when its work is done.
func deaf() {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)
}

// watchdog is the role: wait for the owner's death, sweep what it left, end.
func watchdog(raw []byte) int {
	var a watchdogArgs
	if err := json.Unmarshal(raw, &a); err != nil {
		complain("watchdog: %v", err)
		return 125
	}
	closeAll(strangers(watchdogReady + 1))
	deaf()
	owner := host.FromFD(watchdogOwner, a.OwnerPID)
	syscall.CloseOnExec(watchdogControl)
	syscall.CloseOnExec(watchdogReady)
	control := os.NewFile(watchdogControl, "control")
	ready := os.NewFile(watchdogReady, "ready")
	ready.Write([]byte{1})
	ready.Close()

	ctx, cancel := context.WithCancel(context.Background())
	bye := make(chan bool, 1)
	go func() {
		b, _ := io.ReadAll(control)
		bye <- string(b) == "bye"
		if string(b) == "bye" {
			cancel()
		}
	}()
	crash.Here("watchdog-ready")
	err := owner.WaitExit(ctx)
	if ctx.Err() != nil {
		return 0 // closed in order
	}
	if err != nil {
		complain("watchdog: wait for owner %d: %v", a.OwnerPID, err)
		<-bye // the pipe's end is the second sign
	}
	death := host.StartNow() + 1
	rouse()
	crash.Here("watchdog-woken")
	return sweepDead(a, death)
}

// sweepDead sweeps the dead owner's launches. Its lock is free the moment its
// last descriptor is, which can be a moment after its last thread.
func sweepDead(a watchdogArgs, death uint64) int {
	store, err := ledger.OpenStore(a.State, ledger.Options{AllowNetworkFS: a.Network})
	if err != nil {
		complain("watchdog: %v", err)
		return 125
	}
	here, err := host.Here()
	if err != nil {
		complain("watchdog: %v", err)
		return 125
	}
	pause := time.Millisecond
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); {
		rep, err := sweep.Sweep(context.Background(), store, here, sweep.Request{
			Scope: a.Scope, Owner: a.Owner, DeathTicks: death,
		})
		if err != nil {
			complain("watchdog: %v", err)
		}
		left := rep.Live
		for _, r := range rep.Results {
			if r.Outcome == "incomplete" {
				left++
			}
		}
		if err == nil && left == 0 {
			return 0
		}
		// Somebody else sweeps, or something lives that could not be ended
		// (an uninterruptible process): try again, ever more rarely.
		time.Sleep(pause)
		pause = min(2*pause, 30*time.Second)
	}
	return 1
}
