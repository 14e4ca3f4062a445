package reap

// The preconditions, each proved by using the thing once: versions and
// configurations say what should be, sandboxes what is.

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"
	"unsafe"

	"github.com/custody-project/custody/internal/host"
	"golang.org/x/sys/unix"
)

// system is what a reaper holds on Linux.
type system struct {
	children *os.File // of the main thread
	fds      *os.File // the directory of our descriptors
	handles  bool     // os/exec has handles, and we see them
	inodes   bool     // each is a file of its own (Linux 6.9)
	told     chan os.Signal
	look
}

func (r *Reaper) begin() (err error) {
	defer func() {
		if err != nil && r.undo != nil {
			r.undo()
		}
	}()
	undo := func(f func()) {
		before := r.undo
		r.undo = func() {
			f()
			if before != nil {
				before()
			}
		}
	}
	pid := os.Getpid()
	r.look = look{spared: map[int]bool{}, waiting: map[int]waiting{}, buf: make([]byte, 16<<10)}
	if self, err := os.Readlink("/proc/self"); err != nil {
		return wrap("2: /proc is mounted", unsupported(err))
	} else if self != fmt.Sprint(pid) {
		return wrap("2: /proc is of our PID namespace", unsupported(fmt.Errorf("/proc says we are %s, we are %d; mount a new one", self, pid)))
	}
	if r.children, err = openChildren(pid); err != nil {
		return wrap("3: the kernel has children lists", unsupported(err))
	}
	undo(func() { r.children.Close() })
	if r.fds, err = os.Open("/proc/self/fd"); err != nil {
		return wrap("2: /proc is mounted", unsupported(err))
	}
	undo(func() { r.fds.Close() })
	if err := ignored(); err != nil {
		return wrap("5: SIGCHLD is not ignored", err)
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", pid)); err != nil {
		return wrap("6: the main thread lives", unsupported(err))
	} else if row, err := host.ParseStat(b); err != nil || row.State == 'Z' || row.State == 'X' {
		return wrap("6: the main thread lives", unsupported(fmt.Errorf("it has ended: %w", errors.Join(err, os.ErrProcessDone))))
	}
	if r.handles, err = r.probe(pid); !r.handles && r.opt.Patience <= 0 {
		return wrap("7: os/exec has process handles", unsupported(fmt.Errorf("%w; set Options.Patience and start commands by reap.Start", err)))
	}
	was, err := subreaper()
	switch {
	case err != nil:
		return wrap("4: orphans come to this process", unsupported(err))
	case r.opt.Subreaper && !was:
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return wrap("4: orphans come to this process", unsupported(os.NewSyscallError("prctl", err)))
		}
		undo(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	case pid != 1 && !was:
		return wrap("4: orphans come to this process", fmt.Errorf("%w; set Options.Subreaper", ErrNotAdopter))
	}
	r.told = make(chan os.Signal, 1)
	signal.Notify(r.told, unix.SIGCHLD) // before the first look
	undo(func() { signal.Stop(r.told) })
	go r.run()
	return nil
}

// run looks whenever it is told of a death.
func (r *Reaper) run() {
	defer close(r.done)
	defer running.Store(false)
	defer r.undo()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		collected, due := r.lookOnce()
		if collected == 0 {
			timer.Reset(min(due, r.opt.Every))
			select {
			case <-r.quit:
				return
			case <-r.told:
			case <-timer.C:
			}
		}
		// Deaths come in herds: one look for many.
		timer.Reset(r.rest())
		select {
		case <-r.quit:
			return
		case <-timer.C:
		}
	}
}

func openChildren(pid int) (*os.File, error) {
	if host.Without("children") {
		return nil, errors.New("taken away")
	}
	return os.Open(fmt.Sprintf("/proc/self/task/%d/children", pid))
}

func subreaper() (bool, error) {
	var is int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0)
	return is != 0, os.NewSyscallError("prctl", err)
}

// unsupported keeps the cause and matches errors.ErrUnsupported.
func unsupported(err error) error { return fmt.Errorf("%w (%w)", err, errors.ErrUnsupported) }
