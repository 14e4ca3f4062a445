package reap

// What is left for somebody's Wait, and what goes.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
	"weak"

	"golang.org/x/sys/unix"
)

func init() {
	roles["owned"] = ownedIsLeft
	roles["stale"] = staleRelease
	roles["starting"] = startUnderWay
	roles["late"] = lateWait
	roles["forgotten"] = forgotten
	roles["thread"] = childOfThread
}

// The registry alone, where nothing else tells whose a zombie is.
const alone = "CUSTODY_DEBUG_WITHOUT=pidfd"

func TestOwnedIsLeftAndUnownedGoes(t *testing.T) { inNamespace(t, order{Role: "owned"}, alone) }
func TestStaleRelease(t *testing.T)              { inNamespace(t, order{Role: "stale"}, alone) }
func TestStartUnderWay(t *testing.T)             { inNamespace(t, order{Role: "starting"}, alone) }
func TestLateWait(t *testing.T)                  { inNamespace(t, order{Role: "late"}) }
func TestForgotten(t *testing.T)                 { inNamespace(t, order{Role: "forgotten"}) }
func TestForgottenOwned(t *testing.T)            { inNamespace(t, order{Role: "forgotten"}, alone) }
func TestChildOfAnotherThread(t *testing.T)      { inNamespace(t, order{Role: "thread"}) }

// watch begins a reaper that looks all the time.
func watch() (*Reaper, error) {
	return Begin(Options{Every: 5 * time.Millisecond, Patience: time.Nanosecond})
}

// looked waits until the reaper has looked some more times.
func looked(r *Reaper) error {
	from := r.Stats().Looks
	return eventually("30 looks", func() bool { return r.Stats().Looks > from+30 })
}

// dead waits until a child is a zombie.
func dead(pid int) error {
	return eventually(fmt.Sprintf("the end of %d", pid), func() bool {
		is, err := deadChild(unix.P_PID, pid)
		return is && err == nil
	})
}

// orphan makes one, which ends at once.
func orphan() error { return exec.Command("sh", "-c", "(exit 3 &)").Run() }

func exits(code int) *exec.Cmd { return exec.Command("sh", "-c", "exit "+strconv.Itoa(code)) }

// gives says if err is the command's status.
func gives(code int, err error) error {
	var e *exec.ExitError
	if !errors.As(err, &e) || e.ExitCode() != code {
		return fmt.Errorf("want exit status %d, have %v", code, err)
	}
	return nil
}

func ownedIsLeft(order) error {
	r, err := watch()
	if err != nil {
		return err
	}
	cmd := exits(7)
	if err := errors.Join(Start(cmd), dead(cmd.Process.Pid), orphan(), looked(r)); err != nil {
		return err
	}
	if s := r.Stats(); s.Reaped != 1 || s.Left != 1 {
		return fmt.Errorf("an orphan and a command were dead: %+v", s)
	}
	return gives(7, Wait(cmd))
}

func staleRelease(order) error {
	r, err := watch()
	if err != nil {
		return err
	}
	first := exits(0)
	if err := errors.Join(Start(first), first.Wait()); err != nil { // the release is yet to come
		return err
	}
	var second *exec.Cmd
	for range 200 {
		last := strconv.Itoa(first.Process.Pid - 1)
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(last), 0); err != nil {
			return err
		}
		second = exits(9)
		if err := Start(second); err != nil {
			return err
		}
		if second.Process.Pid == first.Process.Pid {
			break
		}
		Wait(second)
	}
	if second.Process.Pid != first.Process.Pid {
		return errors.New("the number was not given again")
	}
	owned.release(weak.Make(first))
	if err := errors.Join(dead(second.Process.Pid), looked(r)); err != nil {
		return err
	}
	return gives(9, Wait(second))
}

func startUnderWay(order) error {
	r, err := watch()
	if err != nil {
		return err
	}
	cmd := exits(5)
	err = owned.start(cmd, func() error {
		return errors.Join(cmd.Start(), dead(cmd.Process.Pid), looked(r))
	})
	return errors.Join(err, gives(5, Wait(cmd)))
}

// A command of a library that knows nothing of reaping, waited for long after
// its end: forked by the main thread, by a thread that has ended, and by one
// that lives.
func lateWait(order) error {
	r, err := Begin(Options{Every: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	var cmds []*exec.Cmd
	start := func() error {
		cmd := exits(10 + len(cmds))
		cmds = append(cmds, cmd)
		return cmd.Start()
	}
	ended := make(chan error)
	var thread int
	for i := range 3 {
		switch i {
		case 0:
			err = start()
		case 1, 2:
			go func() {
				runtime.LockOSThread()
				thread = unix.Gettid()
				if ended <- start(); i == 2 {
					select {}
				}
			}()
			err = <-ended
		}
		if err != nil {
			return err
		}
		if i == 1 {
			err = eventually("the thread's end", func() bool {
				_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
				return err != nil
			})
		}
		if err := errors.Join(err, dead(cmds[i].Process.Pid)); err != nil {
			return err
		}
	}
	from := time.Now()
	for time.Since(from) < time.Second {
		if err := errors.Join(orphan(), looked(r)); err != nil {
			return err
		}
	}
	if s := r.Stats(); s.Left != 2 || s.Reaped == 0 || s.Err != nil {
		return fmt.Errorf("the main thread has two dead commands: %+v", s)
	}
	for i, cmd := range cmds {
		if err := gives(10+i, cmd.Wait()); err != nil {
			return err
		}
	}
	return nil
}

// A command that nobody can wait for any more is an orphan.
func forgotten(order) error {
	r, err := watch()
	if err != nil {
		return err
	}
	func() {
		cmd := exits(1)
		if err = Start(cmd); err == nil {
			err = dead(cmd.Process.Pid)
		}
	}()
	if err != nil {
		return err
	}
	return eventually("its collection", func() bool {
		runtime.GC()
		return r.Stats().Reaped == 1
	})
}

// A zombie that is another thread's child is not adopted, whatever an earlier
// list of the main thread's children said of its number.
func childOfThread(order) error {
	r, err := Begin(Options{})
	if err != nil {
		return err
	}
	defer r.Close()
	pid := 0
	forked := make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		pid, err = syscall.ForkExec("/bin/true", []string{"true"}, nil) // without a handle
		forked <- errors.Join(err, dead(pid))
		select {}
	}()
	if err := <-forked; err != nil {
		return err
	}
	if err := errors.Join(orphan(), eventually("its collection", func() bool { return r.Stats().Reaped > 0 })); err != nil {
		return err
	}
	list, err := os.Open(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		return err
	}
	two := &Reaper{system: system{children: list, look: look{buf: make([]byte, 4096), batch: []zombie{{pid: pid}}}}}
	if err := two.confirm(); err != nil || two.batch[0].adopted || two.spare(&two.batch[0], 1) == 0 {
		return fmt.Errorf("another thread's child is taken for an orphan: %+v, %v", two.batch, err)
	}
	_, err = syscall.Wait4(pid, nil, 0, nil)
	return err
}
