package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// sweep: a thousand records of an owner that died with all its trees, on a
// quiet host and on one with ten thousand other processes.
func (b *bench) sweep() error {
	records, others := 1000, 10000
	if b.quick {
		records, others = 50, 500
	}
	section(fmt.Sprintf("Sweep of %d stale records, with 0 and with %d other processes", records, others))
	for i, c := range []struct {
		what    string
		cgroups bool
	}{{"level cgroup", true}, {"level group", false}} {
		var none, busy []time.Duration
		var walks []int64
		for round := range b.rounds(5) {
			for _, crowd := range []int{0, others} {
				dir := filepath.Join(b.dir, fmt.Sprintf("sweep-%d-%d-%d", i, round, crowd))
				d, n, err := b.oneSweep(dir, c.cgroups, records, crowd)
				if err != nil {
					return err
				}
				if crowd == 0 {
					none = append(none, d)
				} else {
					busy = append(busy, d)
				}
				walks = append(walks, n)
			}
		}
		q, y := median(none), median(busy)
		figure := fmt.Sprintf("%.2f  (%s against %s)", ratio(y, q), show(y), show(q))
		if i == 0 {
			b.aim(y <= q*12/10, c.what, figure, "≤ 1.20")
			b.aim(slices.Max(walks) == 0, c.what+", process table walks", fmt.Sprint(slices.Max(walks)), "0")
		} else {
			note(c.what, figure)
			b.aim(slices.Max(walks) <= 1, c.what+", process table walks", fmt.Sprint(slices.Max(walks)), "≤ 1")
		}
	}
	return nil
}

func (b *bench) oneSweep(dir string, cgroups bool, records, others int) (time.Duration, int64, error) {
	if err := stale(dir, records, cgroups); err != nil {
		return 0, 0, err
	}
	stop, err := b.crowd(others)
	if err != nil {
		return 0, 0, err
	}
	defer stop()
	walked := host.Walks()
	from := time.Now()
	rep, err := custody.Sweep(context.Background(), custody.SweepOptions{Dir: dir})
	d := time.Since(from)
	if err != nil {
		return 0, 0, err
	}
	came := map[string]int{} // how often to what
	for _, l := range rep.Launches {
		if l.Outcome == "gone" {
			came["gone"]++
		} else {
			came[fmt.Sprintf("%s: %s", l.Outcome, l.Reason)]++
		}
	}
	if came["gone"] != records || len(rep.SetAside) > 0 {
		return 0, 0, fmt.Errorf("%d records came to %v; set aside: %v", records, came, rep.SetAside)
	}
	return d, host.Walks() - walked, nil
}

// stale writes what an owner leaves that died with its watchdog and all its
// trees: the records of n launches whose leader is no more, and their empty
// cgroups.
func stale(dir string, n int, cgroups bool) error {
	c := exec.Command("sleep", "60")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	p, err := host.Open(c.Process.Pid)
	var dead proof.Identity
	if err == nil {
		dead, err = p.Identity()
		p.Close()
	}
	c.Process.Kill()
	c.Wait()
	if err != nil {
		return err
	}
	here, err := host.Here()
	if err != nil {
		return err
	}
	base, err := host.CgroupBase()
	if cgroups && err != nil {
		return err
	}
	store, err := ledger.OpenStore(dir, ledger.Options{Create: true})
	if err != nil {
		return err
	}
	defer store.Close()
	owner, err := store.NewOwner(ledger.OwnerRecord{ID: proof.NewID(), Scope: "bench",
		Host: here.Host, Boot: here.Boot, PIDNS: here.PIDNS, Process: dead})
	if err != nil {
		return err
	}
	defer owner.Close() // and its lock is free
	plan := []ledger.Phase{{Signal: "KILL", Wait: 5 * time.Second}}
	for range n {
		id := proof.NewID()
		r := &ledger.Record{ID: id, Scope: "bench", Owner: owner.ID, State: ledger.Running, OnOwnerDeath: ledger.Kill,
			Phases: plan, DeathPhases: plan, Level: contain.Group, Host: here.Host, Boot: here.Boot, PIDNS: here.PIDNS,
			IntentTicks: dead.Start, Leader: &dead, Brand: uint64(host.BrandOf(id)), Command: []string{"sleep", "60"}}
		if cgroups {
			r.Level, r.Cgroup = contain.CgroupL, &ledger.Cgroup{Path: contain.CgroupPath(base, id)}
			if err := contain.MakeCgroup(r.Cgroup); err != nil {
				return err
			}
		}
		if err := owner.Write(r); err != nil {
			return err
		}
	}
	return nil
}

// crowd starts n processes that have nothing to do with us. stop ends them
// through their leader, our unreaped child: each dies with it.
func (b *bench) crowd(n int) (stop func(), err error) {
	if n == 0 {
		return func() {}, nil
	}
	c := exec.Command(b.tiny, strconv.Itoa(n), "120", "eof", "together")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		in.Close()
		c.Process.Kill()
		c.Wait()
		collect()
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		stop()
		return nil, fmt.Errorf("%d other processes did not come up: %w", n, err)
	}
	return stop, nil
}
