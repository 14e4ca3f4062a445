package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// death: from the owner's SIGKILL to the last member gone, against
// kill(-pgid) by a program that holds the group's unreaped leader: nothing
// ends a group faster.
func (b *bench) death() error {
	section("Owner killed: time to the last member gone, against a raw kill(-pgid)")
	kinds := []struct {
		what, without string
		kept          bool
	}{
		{"direct (watchdog), level group", "cgroup", false},
		{"direct (watchdog), level cgroup", "", false},
		{"kept (keeper), level lineage", "cgroup", true},
		{"kept (keeper), level cgroup", "", true},
	}
	for _, n := range []int{10, 100, 1000} {
		var raw []time.Duration
		own := make([][]time.Duration, len(kinds))
		for round := range b.rounds(9) {
			d, err := b.rawDeath(n)
			if err != nil {
				return err
			}
			raw = append(raw, d)
			for i, k := range kinds {
				dir := filepath.Join(b.dir, fmt.Sprintf("death-%d-%d-%d", n, round, i))
				d, err := b.ownerDeath(n, k.without, k.kept, dir)
				if err != nil {
					return err
				}
				own[i] = append(own[i], d)
			}
		}
		base := median(raw)
		note(fmt.Sprintf("%d members, raw kill(-pgid)", n), show(base))
		for i, k := range kinds {
			d := median(own[i])
			b.aim(d <= 2*base+10*time.Millisecond, fmt.Sprintf("%d members, %s", n, k.what),
				fmt.Sprintf("%.2f  (%s, %s more)", ratio(d, base), show(d), show(d-base)), "≤ 2 × raw + 10 ms")
		}
	}
	return nil
}

// rawDeath starts a group as our own child and kills it by its number, which
// the unreaped leader keeps from being recycled.
func (b *bench) rawDeath(n int) (time.Duration, error) {
	c := exec.Command(b.tiny, strconv.Itoa(n), "120")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	defer collect()
	defer c.Wait()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		c.Process.Kill()
		return 0, fmt.Errorf("members did not come up: %w", err)
	}
	fds, err := openGroup(c.Process.Pid, n)
	if err != nil {
		c.Process.Kill()
		return 0, err
	}
	from := time.Now()
	if err := unix.Kill(-c.Process.Pid, unix.SIGKILL); err != nil {
		return 0, err
	}
	return awaitAll(fds, from)
}

// ownerDeath starts an owner with one launch of n members and kills it.
func (b *bench) ownerDeath(n int, without string, kept bool, dir string) (time.Duration, error) {
	r, err := play("owner", without, ask{Dir: dir, Tiny: b.tiny, Members: n, Kept: kept, Count: 1})
	if err != nil {
		return 0, err
	}
	defer collect()
	t, err := r.answer()
	var fds []int
	if err == nil {
		fds, err = openGroup(t.PIDs[0], n)
	}
	if err != nil {
		r.kill()
		return 0, err
	}
	time.Sleep(800 * time.Millisecond) // the keeper's first notes of members are done
	from := time.Now()
	r.cmd.Process.Kill()
	d, err := awaitAll(fds, from)
	r.kill()
	return d, err
}

// openGroup opens a handle of each of the n processes of a group whose leader
// has them all as children.
func openGroup(leader, n int) ([]int, error) {
	pids := []int{leader}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", leader, leader))
	if err != nil {
		return nil, err
	}
	for _, f := range bytes.Fields(b) {
		pid, err := strconv.Atoi(string(f))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	if len(pids) != n {
		return nil, fmt.Errorf("%d members, want %d", len(pids), n)
	}
	var fds []int
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return nil, fmt.Errorf("open member %d: %w", pid, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// awaitAll waits for each in turn: few wake-ups, so that we do not compete
// with the work that is measured.
func awaitAll(fds []int, from time.Time) (time.Duration, error) {
	end := from.Add(30 * time.Second)
	for _, fd := range fds {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(p, int(time.Until(end).Milliseconds()))
			if err == unix.EINTR {
				continue
			}
			if err != nil || n == 0 {
				return 0, fmt.Errorf("a member still lives after 30 s (%v)", err)
			}
			break
		}
	}
	d := time.Since(from)
	for _, fd := range fds {
		unix.Close(fd)
	}
	return d, nil
}
