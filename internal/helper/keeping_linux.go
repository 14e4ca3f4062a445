package helper

import (
	"context"
	"errors"
	"io/fs"
	"os"
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

// The keeper's life after the start: it collects the dead, tells the leader's
// end, and ends the tree when leader or owner is gone.

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
		switch o.Type {
		case "hurry":
			select {
			case k.hurry <- struct{}{}:
			default:
			}
		case "kill":
			k.killed.Do(func() { close(k.now) })
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

// deathTicks is the moment of the owner's death for who has heard of it, else
// 0: until then watchOwner may be writing it.
func (k *kept) deathTicks(death bool) uint64 {
	if !death {
		return 0
	}
	return k.death
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
	if k.awaited(pid) {
		time.Sleep(time.Millisecond) // somebody collects it right now
		return true
	}
	switch info.code {
	case cldStopped, cldContinued:
		// Consume the state change, then tell.
		takeStop(pid)
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

// fork starts a child that somebody else than reap collects: the stop hook.
func (k *kept) fork(start func() (int, error)) (done func(), err error) {
	k.forking.Lock() // no end is looked at between its fork and its being known
	defer k.forking.Unlock()
	pid, err := start()
	if err != nil {
		return nil, err
	}
	if k.hooks == nil {
		k.hooks = map[int]bool{}
	}
	k.hooks[pid] = true
	return func() {
		k.forking.Lock()
		defer k.forking.Unlock()
		delete(k.hooks, pid)
	}, nil
}

func (k *kept) awaited(pid int) bool {
	k.forking.Lock()
	defer k.forking.Unlock()
	return k.hooks[pid]
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
			settleDown()
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
	x := sweep.ExitOf(status)
	k.exit = x // should it not be written now, on a full disk, it is at the end
	oom := k.oom.more(status)
	k.update(func(r *ledger.Record) {
		x.OOM = oom && r.PhasesSent == 0 // else the KILL was ours
		if r.Exit = x; r.State != ledger.Released && r.State != ledger.Ended {
			r.State = ledger.Exited
		}
	})
}

// update changes the record where it lies by now: another owner may have taken
// the launch over.
func (k *kept) update(change func(*ledger.Record)) error {
	err := k.dir.Update(k.spec.ID, change)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	now, lerr := ledger.Locate(k.dir, k.spec.ID)
	if lerr != nil {
		return err
	}
	k.dir.Close()
	k.dir = now
	return k.dir.Update(k.spec.ID, change)
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
		k.update(func(r *ledger.Record) { r.Members = out; k.rec = r })
		return
	}
}

// end stops what is left and concludes, again and again if something can't be
// ended; meanwhile orphans are still collected.
func (k *kept) end(death bool) int {
	rouse()
	pause := time.Second
	for len(k.hurry) > 0 {
		<-k.hurry // meant for an earlier stop
	}
	ownerDead := k.ownerDead
	if k.spec.Survive {
		ownerDead = nil
	}
	for {
		res := sweep.End(context.Background(), k.dir, k.spec.ID, k.here, sweep.Options{
			Death: death, DeathTicks: k.deathTicks(death), Hurry: k.hurry, Now: k.now, Known: k.rec, Exit: k.exit, Fork: k.fork, OwnerDead: ownerDead,
		})
		k.send(Event{Type: "ended", Result: &res})
		if res.Outcome == sweep.Released {
			if k.released() {
				return 0
			}
			death = true
			continue
		}
		// What can't be freed is left to a sweep: nothing lives that would need
		// a keeper.
		if res.Outcome != string(stop.Incomplete) || res.Verdict == proof.Gone {
			k.sweepOwner(death)
			return 0
		}
		select {
		case <-time.After(pause):
		case <-k.hurry:
		case <-ownerDead:
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
// ours to collect, until the last one is gone. It returns false if the launch
// was taken back by the time its owner died, and so is to die with it. One that
// is taken back from a dead owner is the next sweep's.
func (k *kept) released() bool {
	ownerDead := k.ownerDead
	select {
	case <-ownerDead:
		ownerDead = nil
	default:
	}
	if k.spec.Survive {
		ownerDead = nil
	}
	for !k.childless() {
		select {
		case <-k.child:
		case <-ownerDead:
			ownerDead = nil
			if r, err := k.dir.Read(k.spec.ID); err == nil && r.State != ledger.Released {
				return false
			}
		}
	}
	if k.spec.Survive && k.takenBack() {
		sweep.End(context.Background(), k.dir, k.spec.ID, k.here, sweep.Options{Known: k.rec, Exit: k.exit})
		return true
	}
	if store, err := ledger.OpenStoreOf(k.dir); err == nil {
		defer store.Close()
		sweep.Sweep(context.Background(), store, k.here, sweep.Request{Scope: k.dir.Scope, Owner: k.dir.ID, Busy: true, Fork: k.fork})
	}
	return true
}

// takenBack reports whether the launch is in custody again, with whatever owner.
func (k *kept) takenBack() bool {
	r, err := k.dir.Read(k.spec.ID)
	if errors.Is(err, fs.ErrNotExist) {
		now, lerr := ledger.Locate(k.dir, k.spec.ID)
		if lerr != nil {
			return false
		}
		k.dir.Close()
		k.dir = now
		r, err = now.Read(k.spec.ID)
	}
	return err == nil && r.State != ledger.Released
}

// sweepOwner removes the directory of an owner that died, if this was its last
// launch. Whoever sweeps it already may be waiting for this keeper to end.
func (k *kept) sweepOwner(death bool) {
	if !death {
		return
	}
	if store, err := ledger.OpenStoreOf(k.dir); err == nil {
		defer store.Close()
		sweep.Sweep(context.Background(), store, k.here, sweep.Request{Scope: k.dir.Scope, Owner: k.dir.ID, Busy: true, Fork: k.fork, DeathTicks: k.death})
	}
}
