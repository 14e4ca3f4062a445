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
	"github.com/custody-project/custody/internal/host"
)

// sweep: a thousand records of an owner that died with all its trees, on a
// quiet host and on one with ten thousand other processes.
func (b *bench) sweep() error {
	records, others := 1000, 10000
	if b.quick {
		records, others = 50, 500
	}
	section(fmt.Sprintf("Sweep of %d stale records, with 0 and with %d other processes", records, others))
	for i, c := range []struct{ what, without string }{{"level cgroup", ""}, {"level group", "cgroup"}} {
		var none, busy []time.Duration
		var walks []int64
		for round := range b.rounds(5) {
			for _, crowd := range []int{0, others} {
				dir := filepath.Join(b.dir, fmt.Sprintf("sweep-%d-%d-%d", i, round, crowd))
				d, n, err := b.oneSweep(dir, c.without, records, crowd)
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

func (b *bench) oneSweep(dir, without string, records, others int) (time.Duration, int64, error) {
	// Owner and watchdog killed together leave the records; the launches end
	// by themselves when their standard input does.
	r, err := play("owner", without, ask{Dir: dir, Tiny: b.tiny, Members: 1, Count: records, EOF: true})
	if err != nil {
		return 0, 0, err
	}
	_, err = r.answer()
	if e := r.killBoth(); err == nil {
		err = e
	}
	collect()
	if err != nil {
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
	gone := 0
	for _, l := range rep.Launches {
		if l.Outcome == "gone" {
			gone++
		}
	}
	if gone != records || len(rep.SetAside) > 0 {
		return 0, 0, fmt.Errorf("%d of %d records ended, %d set aside; %d live owners; first: %+v", gone, records, len(rep.SetAside), rep.LiveOwners, slices.Concat(rep.Launches, []custody.StopResult{{}})[0])
	}
	return d, host.Walks() - walked, nil
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
