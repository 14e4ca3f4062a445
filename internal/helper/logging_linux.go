package helper

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/logfile"
	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

// A launch's output comes through a pipe and goes to a log of bounded size, so
// that a full disk is the keeper's trouble and not the command's. A pipe breaks
// with its reader: so the spare holds its reading end too, does nothing, and
// goes on reading should the keeper be killed.

// LogPipe makes the pipe of a log: as large as an ordinary user may have it, so
// that a busy machine does not make the command wait.
func LogPipe() (r, w *os.File, err error) {
	if r, w, err = os.Pipe(); err == nil {
		unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 1<<20)
		// The command's end blocks, as everybody expects of it.
		unix.SetNonblock(int(w.Fd()), false)
	}
	return r, w, err
}

// logging copies a pipe into a launch's log.
type logging struct {
	in   *os.File
	out  *logfile.Writer
	done chan struct{} // closed at the end of the output
}

// openLog opens the log of a launch for the output that comes from fd.
func openLog(fd int, scopeDir string, id proof.ID, cfg ledger.Log) (*logging, error) {
	l := &logging{done: make(chan struct{})}
	var err error
	l.out, err = logfile.Open(scopeDir, id, logfile.Config{MaxBytes: cfg.MaxBytes, Files: cfg.Files})
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	unix.SetNonblock(fd, true) // read without holding a thread
	l.in = os.NewFile(uintptr(fd), "log")
	return l, nil
}

func (l *logging) copy() {
	io.Copy(l.out, l.in) // what can't be written is counted, so this ends with the output
	close(l.done)
}

// finish waits a while for the rest of the output, once nothing of the tree is
// left that could write, and closes the log.
func (l *logging) finish() {
	l.in.SetReadDeadline(time.Now().Add(2 * time.Second))
	<-l.done
	l.out.Close()
}

// File descriptors of a spare.
const (
	spareLog    = 3 // read end of the log's pipe
	spareKeeper = 4 // pidfd of the keeper
)

type spareArgs struct {
	ScopeDir []byte     `json:"scope_dir"` // bytes, as every path
	ID       proof.ID   `json:"id"`
	Log      ledger.Log `json:"log"`
	Keeper   int        `json:"keeper"`
}

// StartSpare starts the process that goes on reading a launch's output should
// its keeper be killed. It ends with the output.
func (b Binary) StartSpare(k *Keeper, spec Spec, log ledger.Log, r *os.File) (int, error) {
	c, err := b.command("spare", spareArgs{ScopeDir: []byte(filepath.Dir(spec.OwnerDir)), ID: spec.ID, Log: log, Keeper: k.PID}, "of", spec.ID.Short())
	if err != nil {
		return 0, err
	}
	if k.starter != nil {
		pid, err := k.starter.start(c, starterOrder{Fds: []int{k.logFD}, Of: k.PID, SID: true})
		if err != nil {
			return 0, fmt.Errorf("start spare: %w", err)
		}
		return pid, nil
	}
	pidfd, err := selfFile(k.proc)
	if err != nil {
		return 0, fmt.Errorf("start spare: %w", err)
	}
	defer pidfd.Close()
	c.ExtraFiles = []*os.File{r, pidfd}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	CleanMask(func() { err = c.Start() })
	if err != nil {
		return 0, fmt.Errorf("start spare: %w", err)
	}
	go c.Wait()
	return c.Process.Pid, nil
}

// spare is the role.
func spare(raw []byte) int {
	var a spareArgs
	if err := json.Unmarshal(raw, &a); err != nil {
		complain("spare: %v", err)
		return 125
	}
	closeAll(strangers(spareKeeper + 1))
	deaf()
	settleDown()
	k := host.FromFD(spareKeeper, a.Keeper)
	if err := k.WaitExit(context.Background()); err != nil {
		complain("spare: %v", err)
		return 125
	}
	// The usual end: the tree went before its keeper, and nothing is left.
	first := make([]byte, 4096)
	n, err := unix.Read(spareLog, first)
	if n == 0 || err != nil && err != unix.EAGAIN { // the keeper's end does not block, and ours is the same
		return 0
	}
	l, err := openLog(spareLog, string(a.ScopeDir), a.ID, a.Log)
	if err != nil {
		// Read on all the same: the command must not wait for us.
		io.Copy(io.Discard, os.NewFile(spareLog, "log"))
		return 125
	}
	l.out.Write(first[:max(n, 0)])
	l.copy()
	l.out.Close()
	return 0
}
