package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

// File descriptors of a keeper. Its standard three are the leader's.
const (
	keeperControl = 3 // socket: the spec in, events out
	keeperOwner   = 4 // pidfd of the owner
	keeperExtra   = 5 // the leader's further files
)

type keeperArgs struct {
	OwnerPID int `json:"owner_pid"`
}

// Keeper is an owner's handle of a launch's keeper.
type Keeper struct {
	PID int
	*Conn
	done chan struct{}
}

// Done is closed when the keeper has ended.
func (k *Keeper) Done() <-chan struct{} { return k.done }

// StartKeeper starts the keeper of a launch and hands it the spec. std and
// extra are the leader's files; a nil one is the null device. session says if
// the keeper leaves our session, which it must not on a terminal.
func (b Binary) StartKeeper(spec Spec, std [3]*os.File, extra []*os.File, self *host.Process, session bool) (*Keeper, error) {
	c, err := b.command("keeper", keeperArgs{OwnerPID: os.Getpid()}, "of", spec.ID.Short(), spec.Args[0])
	if err != nil {
		return nil, err
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("start keeper: socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer theirs.Close()
	pidfd, err := selfFile(self)
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	defer pidfd.Close()
	// A nil *os.File in an io.Reader is not nil.
	if std[0] != nil {
		c.Stdin = std[0]
	}
	if std[1] != nil {
		c.Stdout = std[1]
	}
	if std[2] != nil {
		c.Stderr = std[2]
	}
	c.ExtraFiles = append([]*os.File{theirs, pidfd}, extra...)
	spec.Extra = len(extra)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: session, Setpgid: !session}
	CleanMask(func() { err = c.Start() })
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	k := &Keeper{PID: c.Process.Pid, Conn: newConn(ours), done: make(chan struct{})}
	go func() {
		c.Wait()
		close(k.done)
	}()
	if err := k.enc.Encode(spec); err != nil {
		k.Close()
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	return k, nil
}

// selfFile returns a file for a child to inherit our pidfd by.
func selfFile(self *host.Process) (*os.File, error) {
	d, err := self.Dup()
	if err != nil {
		return nil, err
	}
	var f *os.File
	err = d.Use(func(fd int) error {
		f = os.NewFile(uintptr(fd), "owner")
		return nil
	})
	return f, err
}

// kept is the state of a keeper.
type kept struct {
	spec    Spec
	conn    *Conn
	owner   *host.Process
	dir     *ledger.Owner
	here    host.Place
	rec     *ledger.Record
	leader  int
	started func()        // run once the owner knows of the start
	heard   chan struct{} // closed when it has returned

	mu      sync.Mutex
	sendErr error
	told    sync.Once

	exited    chan uint32   // the leader's wait status, once
	ownerDead chan struct{} // closed when the owner has died
	child     chan struct{} // a child ended
	hurry     chan struct{} // the owner has no more patience
	severed   chan struct{} // closed when the owner's end of the socket is
	death     uint64        // boot clock when the owner died
}

// keeper is the role: start the leader, hold the tree, end it.
func keeper(raw []byte) int {
	var a keeperArgs
	if err := json.Unmarshal(raw, &a); err != nil {
		complain("keeper: %v", err)
		return 125
	}
	k := &kept{exited: make(chan uint32, 1), ownerDead: make(chan struct{}), child: make(chan struct{}, 1),
		hurry: make(chan struct{}, 8), severed: make(chan struct{}), heard: make(chan struct{})}
	syscall.CloseOnExec(keeperControl)
	k.conn = newConn(os.NewFile(keeperControl, "control"))
	k.owner = host.FromFD(keeperOwner, a.OwnerPID)

	// Subscribe before anything starts, so that no child's end is missed. The
	// signals of a terminal or a service manager are the owner's to act on;
	// they are caught, not ignored, since an ignored one is inherited.
	chld := make(chan os.Signal, 1)
	signal.Notify(chld, syscall.SIGCHLD)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)

	if err := k.conn.dec.Decode(&k.spec); err != nil {
		complain("keeper: no spec: %v", err)
		return 125
	}
	if err := k.begin(); err != nil {
		k.send(Event{Type: "failed", Failure: failureOf(err)})
		if dead, derr := k.owner.Exited(); dead && derr == nil && k.dir != nil {
			// Nobody else is there to take back what was prepared.
			k.death = host.StartNow() + 1
			k.sweepOwner(true)
		}
		return 125
	}
	go k.listen()
	go k.watchOwner()
	go k.reap(chld)
	return k.keep()
}

// begin makes this process the subreaper, notes it in the record, and starts
// the leader. If the owner is dead already nothing is started.
func (k *kept) begin() error {
	var err error
	if k.here, err = host.Here(); err != nil {
		return err
	}
	if k.dir, err = ledger.OpenOwnerAt(k.spec.OwnerDir); err != nil {
		return err
	}
	if dead, err := k.owner.Exited(); dead || err != nil {
		return errors.New("the owner has died")
	}
	if err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	me, err := host.Open(os.Getpid())
	if err != nil {
		return err
	}
	id, err := me.Identity()
	if err != nil {
		return err
	}
	// Nobody may conclude that nothing of the launch is left while it is about
	// to begin: a sweep waits for this lock, and looks again when it has it.
	release, err := k.dir.HoldStop(context.Background(), k.spec.ID)
	if err != nil {
		return err
	}
	release = sync.OnceFunc(release)
	defer release()
	crash.Here("keeper-before-note")
	if err := k.dir.Update(k.spec.ID, func(r *ledger.Record) { r.Keeper = &id }); err != nil {
		return err
	}
	if k.rec, err = k.dir.Read(k.spec.ID); err != nil {
		return err
	}
	crash.Here("keeper-before-start")
	if err := k.start(); err != nil {
		return err
	}
	crash.Here("keeper-before-record")
	if err := k.record(); err != nil {
		// User code runs and can't be written down: it must not stay. What we
		// know of it is enough to stop it, whatever became of the record.
		release()
		sweep.End(context.Background(), k.dir, k.spec.ID, k.here, sweep.Options{Death: true, Keep: true, Known: k.rec})
		return err
	}
	release()
	crash.Here("keeper-before-report")
	k.send(Event{Type: "started", PID: k.leader})
	if k.started != nil {
		go k.started()
	}
	// The leader has its files; ours would keep its pipes open.
	return k.letGo()
}

// start forks the leader: branded from birth, in a session and group of its
// own, in the launch's cgroup if it has one.
func (k *kept) start() error {
	s := k.spec
	c := &exec.Cmd{Path: s.Path, Args: s.Args, Env: s.Env, Dir: s.Dir,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	for i := range s.Extra {
		syscall.CloseOnExec(keeperExtra + i)
		c.ExtraFiles = append(c.ExtraFiles, os.NewFile(uintptr(keeperExtra+i), "extra"))
	}
	attr, err := s.Attr.sys()
	if err != nil {
		return err
	}
	c.SysProcAttr = attr
	join := ""
	if k.rec.Cgroup != nil && s.Join {
		join = filepath.Join(k.rec.Cgroup.Path, "cgroup.procs")
	}
	var failed func() error
	switch {
	case s.PIDNS:
		failed, err = k.viaNamespace(c, join)
	case s.Front || join != "":
		failed, err = viaEnter(c, s.Front, join)
	}
	if err != nil {
		return err
	}
	if k.rec.Cgroup != nil && join == "" {
		f, err := os.Open(k.rec.Cgroup.Path)
		if err != nil {
			return fmt.Errorf("open cgroup: %w", err)
		}
		defer f.Close()
		attr.UseCgroupFD, attr.CgroupFD = true, int(f.Fd())
	}
	if k.rec.Brand != 0 {
		if err := host.SetBrand(0, host.Brand(k.rec.Brand)); errors.Is(err, host.ErrUnsupported) {
			// The limit is in use here: the launch does without the mark.
			err := k.dir.Update(k.spec.ID, func(r *ledger.Record) { r.Brand, r.Born = 0, false; k.rec = r })
			if err != nil {
				return err
			}
		} else if err != nil {
			return fmt.Errorf("set brand: %w", err)
		}
		// The keeper is no member: only what it forks now bears the brand.
		defer host.ClearBrand()
	}
	CleanMask(func() { err = c.Start() })
	if err != nil {
		return err
	}
	k.leader = c.Process.Pid
	if failed != nil {
		if err := failed(); err != nil {
			c.Wait()
			return err
		}
	}
	return nil
}

// record writes down the leader's identity. The leader is our unreaped child,
// so its number is still its own.
func (k *kept) record() error {
	if k.rec.State == ledger.Running {
		return nil // the init of a PID namespace was recorded before it went on
	}
	p, err := host.Open(k.leader)
	if err != nil {
		return err
	}
	defer p.Close()
	id, err := p.Identity()
	if err != nil {
		return err
	}
	var ns uint64
	if k.spec.PIDNS {
		if ns, err = p.PIDNS(); err != nil {
			return err
		}
	}
	return k.dir.Update(k.spec.ID, func(r *ledger.Record) {
		r.State, r.Leader, r.TreeNS = ledger.Running, &id, ns
		k.rec = r
	})
}

// letGo replaces the leader's files by the null device.
func (k *kept) letGo() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return fmt.Errorf("let go of the leader's files: %w", err)
		}
	}
	for i := range k.spec.Extra {
		unix.Close(keeperExtra + i)
	}
	return nil
}

// send tells the owner, who may be dead.
func (k *kept) send(e Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sendErr == nil {
		k.sendErr = k.conn.enc.Encode(e)
	}
}

// listen takes the owner's messages.
func (k *kept) listen() {
	defer close(k.severed)
	for {
		var o order
		if err := k.conn.dec.Decode(&o); err != nil {
			return
		}
		if o.Type == "hurry" {
			select {
			case k.hurry <- struct{}{}:
			default:
			}
		}
	}
}

func (k *kept) watchOwner() {
	if err := k.owner.WaitExit(context.Background()); err != nil {
		<-k.severed // the second sign
	}
	k.death = host.StartNow() + 1
	crash.Here("keeper-woken")
	close(k.ownerDead)
}

// reap collects every child by its number: the leader, whose status is told
// first, and what the tree orphaned. A number is never waited for that was not
// seen dead just before, and never all at once.
func (k *kept) reap(chld <-chan os.Signal) {
	for {
		for k.reapOne() {
		}
		select {
		case k.child <- struct{}{}:
		default:
		}
		<-chld
	}
}

// siginfoChild is the part of siginfo_t that waitid fills in, on the
// architectures Go runs Linux on.
type siginfoChild struct {
	signo, errno, code int32
	_                  [wordPad]int32
	pid                int32
	uid                uint32
	status             int32
	_                  [104]byte
}

func (k *kept) reapOne() bool {
	flags := unix.WEXITED | unix.WNOHANG | unix.WNOWAIT
	if k.spec.Terminal {
		flags |= unix.WSTOPPED | unix.WCONTINUED
	}
	info, err := waitid(flags)
	if err != nil || info.pid == 0 {
		return false
	}
	pid := int(info.pid)
	switch info.code {
	case cldStopped, cldContinued:
		// Consume the state change, then tell.
		var ws unix.WaitStatus
		unix.Wait4(pid, &ws, unix.WUNTRACED|unix.WCONTINUED|unix.WNOHANG, nil)
		if pid == k.leader && info.code == cldStopped {
			k.send(Event{Type: "stopped", PID: pid, Signal: int(info.status)})
		}
		return true
	}
	var ws unix.WaitStatus
	for {
		if _, err = unix.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
			break
		}
	}
	if err == nil && pid == k.leader {
		if k.started != nil {
			<-k.heard // its last words come before its own status
		}
		k.leaderEnded(uint32(ws))
	}
	return true
}

// leaderEnded tells the leader's end, once. In a PID namespace its init told
// the command's status before it ended itself.
func (k *kept) leaderEnded(status uint32) {
	k.told.Do(func() {
		k.send(Event{Type: "exit", Status: status})
		k.exited <- status
	})
}

// keep is the keeper's life after the start.
func (k *kept) keep() int {
	note := time.NewTimer(100 * time.Millisecond)
	noted := 0
	ownerDead := k.ownerDead
	if k.spec.Survive {
		ownerDead = nil
	}
	leaderDone := false
	for {
		select {
		case status := <-k.exited:
			crash.Here("keeper-leader-done")
			leaderDone = true
			k.noteExit(status)
			if !k.spec.Linger {
				return k.end(false)
			}
		case <-ownerDead:
			return k.end(true)
		case <-note.C:
			// What left the leader's group is written down while its parent
			// is known, ever more rarely: after 0.1 s, 0.5 s, 2 s, 8 s, 34 s.
			// Where the tree is branded that is for what shed the brand only,
			// and a keeper that idles is not woken up again.
			k.noteMembers()
			if noted++; noted < 5 || !k.rec.Born {
				note.Reset(min(100*time.Millisecond<<(2*min(noted, 10)), time.Minute))
			}
		case <-k.child:
			if leaderDone && k.childless() {
				return k.end(false)
			}
		}
	}
}

// childless reports whether nothing of the tree is left.
func (k *kept) childless() bool {
	_, err := waitid(unix.WEXITED | unix.WNOHANG | unix.WNOWAIT)
	return err == unix.ECHILD
}

func (k *kept) noteExit(status uint32) {
	ws := syscall.WaitStatus(status)
	x := &ledger.Exit{Code: ws.ExitStatus(), Status: status}
	if ws.Signaled() {
		x.Signal = stop.SignalName(ws.Signal())
	}
	k.dir.Update(k.spec.ID, func(r *ledger.Record) { r.State, r.Exit = ledger.Exited, x })
}

// noteMembers records the members that left the leader's group and session.
func (k *kept) noteMembers() {
	tree := contain.Of(k.rec, k.here, nil)
	s, err := tree.Look(false)
	if err != nil {
		return
	}
	defer s.Close()
	var out []proof.Identity
	for _, m := range s.Members {
		lead := k.rec.Leader
		if lead == nil || m.Row.PGID == lead.PGID || m.Row.SID == lead.PID {
			continue
		}
		if id, err := m.Proc.Identity(); err == nil && len(out) < 64 {
			out = append(out, id)
		}
	}
	if len(out) == 0 && len(k.rec.Members) == 0 {
		return
	}
	for i := range out {
		if i < len(k.rec.Members) && out[i] == k.rec.Members[i] && len(out) == len(k.rec.Members) {
			continue
		}
		k.dir.Update(k.spec.ID, func(r *ledger.Record) { r.Members = out; k.rec = r })
		return
	}
}

// end stops what is left and concludes, again and again if something can't be
// ended; meanwhile orphans are still collected.
func (k *kept) end(death bool) int {
	pause := time.Second
	for len(k.hurry) > 0 {
		<-k.hurry // meant for an earlier stop
	}
	for {
		res := sweep.End(context.Background(), k.dir, k.spec.ID, k.here, sweep.Options{
			Death: death, DeathTicks: k.death, Hurry: k.hurry, Known: k.rec,
		})
		k.send(Event{Type: "ended", Result: &res})
		if res.Outcome == sweep.Released {
			return k.released()
		}
		if res.Outcome != string(stop.Incomplete) {
			k.sweepOwner(death)
			return 0
		}
		select {
		case <-time.After(pause):
		case <-k.hurry:
		case <-k.ownerDead:
			if !death {
				death = true
				continue
			}
			time.Sleep(pause)
		}
		pause = min(2*pause, 30*time.Second)
	}
}

// released: the tree is not ours to end any more, but its orphans are still
// ours to collect, until the last one is gone or the launch is taken back.
func (k *kept) released() int {
	for !k.childless() {
		<-k.child
	}
	if store, err := ledger.OpenStoreOf(k.dir); err == nil {
		defer store.Close()
		sweep.Sweep(context.Background(), store, k.here, sweep.Request{Scope: k.dir.Scope, Owner: k.dir.ID})
	}
	return 0
}

// sweepOwner removes the directory of an owner that died, if this was its last
// launch.
func (k *kept) sweepOwner(death bool) {
	if !death {
		return
	}
	if store, err := ledger.OpenStoreOf(k.dir); err == nil {
		defer store.Close()
		sweep.Sweep(context.Background(), store, k.here, sweep.Request{Scope: k.dir.Scope, Owner: k.dir.ID, DeathTicks: k.death})
	}
}
