package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/sweep"
	"golang.org/x/sys/unix"
)

// The keeper's role: it starts the leader of one launch and stands above it as
// subreaper.

// kept is the state of a keeper.
type kept struct {
	spec    Spec
	conn    *Conn
	owner   *host.Process
	dir     *ledger.Owner
	here    host.Place
	rec     *ledger.Record
	leader  int
	oom     victims
	started func()        // run once the owner knows of the start
	heard   chan struct{} // closed when it has returned
	log     *logging      // of the leader's output, if it is kept
	extra   []*os.File    // the leader's further files
	foreign []int         // descriptors from above, which are the leader's only

	mu      sync.Mutex
	sendErr error
	told    sync.Once

	forking sync.Mutex
	hooks   map[int]bool // children that reap leaves alone

	exited    chan uint32   // the leader's wait status, once
	ownerDead chan struct{} // closed when the owner has died
	child     chan struct{} // a child ended
	hurry     chan struct{} // the owner has no more patience
	now       chan struct{} // closed: the owner wants nothing but KILL
	killed    sync.Once     // guards its closing
	exit      *ledger.Exit  // how the leader ended, once it has
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
		hurry: make(chan struct{}, 8), now: make(chan struct{}), severed: make(chan struct{}), heard: make(chan struct{}), foreign: strangers(a.Files)}
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

	var spec packed
	if err := k.conn.dec.Decode(&spec); err == io.EOF {
		return 125 // the owner thought better of it, or died
	} else if err != nil {
		complain("keeper: no spec: %v", err)
		return 125
	}
	k.spec = spec.unpack()
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
	code := k.keep()
	if k.log != nil {
		k.log.finish()
	}
	return code
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
	if log := k.spec.Log; log != nil {
		fd := keeperExtra + k.spec.Extra
		syscall.CloseOnExec(fd) // the leader has only the files asked for
		if k.log, err = openLog(fd, filepath.Dir(k.spec.OwnerDir), k.spec.ID, *log); err != nil {
			return err
		}
		go k.log.copy()
	}
	crash.Here("keeper-before-note")
	if err := k.dir.Update(k.spec.ID, func(r *ledger.Record) { r.Keeper = &id }); err != nil {
		return err
	}
	if k.rec, err = k.dir.Read(k.spec.ID); err != nil {
		return err
	}
	crash.Here("keeper-before-start")
	k.oom = beforeStart()
	if err := k.start(); err != nil {
		return err
	}
	k.oom = k.oom.of(k.leader)
	crash.Here("keeper-before-record")
	if err := k.record(); err != nil {
		// User code runs and can't be written down: it must not stay. What we
		// know of it is enough to stop it, whatever became of the record.
		release()
		sweep.End(context.Background(), k.dir, k.spec.ID, k.here, sweep.Options{Death: true, Keep: true, Known: k.rec, Fork: k.fork})
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
		k.extra = append(k.extra, os.NewFile(uintptr(keeperExtra+i), "extra")) // closed in letGo, and by no collector
	}
	c.ExtraFiles = slices.Clone(k.extra)
	attr := s.Attr.sys()
	c.SysProcAttr = attr
	join := ""
	if k.rec.Cgroup != nil && s.Join {
		join = filepath.Join(k.rec.Cgroup.Path, "cgroup.procs")
	}
	var failed func() error
	var err error
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
		takeOff, err := host.WearBrand(host.Brand(k.rec.Brand))
		if errors.Is(err, host.ErrUnsupported) {
			// The limit is in use here: the launch does without the mark.
			err := k.dir.Update(k.spec.ID, func(r *ledger.Record) { r.Brand, r.Born = 0, false; k.rec = r })
			if err != nil {
				return err
			}
		} else if err != nil {
			return fmt.Errorf("set brand: %w", err)
		} else {
			// The keeper is no member: only what it forks now bears the brand.
			defer takeOff()
		}
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

// letGo replaces the leader's files by the null device, and leaves the
// directory the leader was started from.
func (k *kept) letGo() error {
	if err := os.Chdir("/"); err != nil {
		return err
	}
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
	for _, f := range k.extra {
		f.Close()
	}
	k.extra = nil
	closeAll(k.foreign)
	return nil
}
