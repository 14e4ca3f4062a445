package reap

// A look: find the dead among the main thread's children, leave those that are
// somebody's, collect the rest. Its cost follows the main thread's children;
// nothing walks the table of processes.

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/host"
	"golang.org/x/sys/unix"
)

// batch is how many zombies are judged at a time, and so how many descriptors a
// look takes for a moment.
const batch = 64

// zombie is a child that was seen dead. Its number can't pass to another
// process before somebody collects it, and its handle says if somebody did.
type zombie struct {
	pid     int
	fd      int    // its handle, -1 where there are none
	id      uint64 // tells it from who had the number before
	seen    uint64 // owned.now() once it had been seen dead
	adopted bool   // a child of the main thread
	holders int    // handles of it in this process, without fd
}

// look is what a look keeps for the next one.
type look struct {
	batch   []zombie
	spared  map[int]bool    // zombies that this look leaves
	waiting map[int]waiting // zombies whose Patience is not over
	buf     []byte
	living  time.Duration // what it cost to ask children that live
}

type waiting struct {
	id    uint64
	since time.Time
	look  uint64 // the last that saw it
}

// lookOnce returns how many zombies it collected, and in how long to look again
// for one that it left.
func (r *Reaper) lookOnce() (collected int, due time.Duration) {
	var first error
	clear(r.spared)
	r.living, due = 0, r.opt.Every
	n := r.looks.Add(1)
	for more := true; more; {
		var err error
		if more, err = r.find(); err == nil {
			err = r.confirm()
		}
		if err == nil {
			err = r.findHolders()
		}
		for i := range r.batch {
			z := &r.batch[i]
			var again time.Duration
			if err == nil {
				if again = r.spare(z, n); again == 0 && r.collect(z) {
					collected++
				} else {
					r.spared[z.pid] = true
				}
			}
			if again > 0 {
				due = min(due, again)
			}
			if z.fd >= 0 {
				unix.Close(z.fd)
			}
		}
		if err != nil {
			// Such as no descriptor left: the program has other worries.
			first, due = err, min(due, time.Second)
			break
		}
	}
	for pid, w := range r.waiting {
		if w.look != n {
			delete(r.waiting, pid)
		}
	}
	r.left.Store(int64(len(r.spared)))
	r.err.Store(&first)
	return collected, due
}

// find puts the next dead children of the main thread into the batch, and says
// if there may be more.
func (r *Reaper) find() (more bool, err error) {
	r.batch = r.batch[:0]
	start, living := time.Now(), 0
	err = r.eachChild(func(pid int) (bool, error) {
		if r.spared[pid] {
			return true, nil
		}
		if dead, err := deadChild(unix.P_PID, pid); !dead {
			living++
			return true, err
		}
		z := zombie{pid: pid, fd: -1}
		if r.handles {
			if z.fd, err = unix.PidfdOpen(pid, 0); err == unix.ESRCH {
				return true, nil
			} else if err != nil {
				return false, os.NewSyscallError("pidfd_open", err)
			}
			// The number may have passed on in between.
			if dead, err := deadChild(unix.P_PIDFD, z.fd); !dead {
				unix.Close(z.fd)
				return true, err
			}
		}
		z.seen = owned.now()
		r.batch = append(r.batch, z)
		more = len(r.batch) == batch
		return !more, nil
	})
	if n := living + len(r.batch); n > 0 {
		r.living += time.Since(start) * time.Duration(living) / time.Duration(n)
	}
	return more, err
}

// confirm asks again for the main thread's children. Whoever is among them now
// was so as the zombie that the batch has: the first answer could have told of
// an earlier holder of the number.
func (r *Reaper) confirm() error {
	if len(r.batch) == 0 {
		return nil
	}
	index := make(map[int]*zombie, len(r.batch))
	for i := range r.batch {
		index[r.batch[i].pid] = &r.batch[i]
	}
	return r.eachChild(func(pid int) (bool, error) {
		if z := index[pid]; z != nil {
			z.adopted = true
			delete(index, pid)
		}
		return len(index) > 0, nil
	})
}

// spare returns 0 for a zombie that is nobody's, else in how long to look at it
// again.
func (r *Reaper) spare(z *zombie, look uint64) time.Duration {
	const soon = 10 * time.Millisecond
	switch {
	case !z.adopted:
		return soon // it is gone, or was moved while we asked
	case z.holders > 0:
		return r.opt.Every
	}
	switch owned.has(z.pid, z.seen) {
	case held:
		return r.opt.Every
	case perhaps:
		if !r.handles {
			return soon
		}
	}
	if r.opt.Patience <= 0 {
		return 0
	}
	w := r.waiting[z.pid]
	if z.id == 0 {
		z.id = startTime(z.pid)
	}
	if w.id != z.id || w.since.IsZero() {
		w = waiting{id: z.id, since: time.Now()}
	}
	w.look = look
	r.waiting[z.pid] = w
	return max(0, time.Until(w.since.Add(r.opt.Patience)))
}

// collect takes the status of a zombie that is nobody's.
func (r *Reaper) collect(z *zombie) bool {
	kind, id := unix.P_PIDFD, z.fd
	if z.fd < 0 {
		kind, id = unix.P_PID, z.pid
	}
	info, err := waitidOf(kind, id, unix.WEXITED|unix.WNOHANG)
	if err != nil || info.PID == 0 {
		return false
	}
	r.reaped.Add(1)
	if r.opt.OnReaped != nil {
		r.opt.OnReaped(Orphan{int(info.PID), status(info)})
	}
	return true
}

// deadChild says if a child, whichever thread's, waits to be collected.
func deadChild(kind, id int) (bool, error) {
	info, err := waitidOf(kind, id, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT)
	if err == unix.ECHILD {
		return false, nil
	}
	return err == nil && info.PID != 0, os.NewSyscallError("waitid", err)
}

// status is how wait4 would have told it.
func status(info siginfoChild) syscall.WaitStatus {
	switch info.Code {
	case 1: // CLD_EXITED
		return syscall.WaitStatus(info.Status&0xff) << 8
	case 3: // CLD_DUMPED
		return syscall.WaitStatus(info.Status) | 0x80
	}
	return syscall.WaitStatus(info.Status)
}

// startTime tells two holders of a number apart where handles have no identity
// of their own. It has the resolution of the clock's tick.
func startTime(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	row, err := host.ParseStat(b)
	if err != nil {
		return 0
	}
	return row.Start
}

// rest is how long to let the dead gather. Many living children make a look
// dear, so it takes a tenth of a processor at most.
func (r *Reaper) rest() time.Duration {
	return min(max(9*r.living, 2*time.Millisecond), 250*time.Millisecond)
}
