package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// idleHelpers: what a watchdog and a keeper cost while nothing happens, beside
// an empty Go program that waits.
func (b *bench) idleHelpers() error {
	wait := b.idle
	if b.quick {
		wait = 5 * time.Second
	}
	section(fmt.Sprintf("Idle helpers, watched for %v", wait))
	owner, err := play("owner", "", ask{Dir: filepath.Join(b.dir, "idle"), Tiny: b.tiny, Members: 3, Count: 1})
	if err != nil {
		return err
	}
	defer owner.end()
	keeper, err := play("owner", "", ask{Dir: filepath.Join(b.dir, "idle"), Tiny: b.tiny, Members: 3, Count: 1, Kept: true})
	if err != nil {
		return err
	}
	defer keeper.end()
	plain, err := play("nothing", "", ask{})
	if err != nil {
		return err
	}
	defer plain.end()
	pids := map[string]int{"an empty Go program": plain.cmd.Process.Pid}
	for _, r := range []*role{owner, keeper, plain} {
		if _, err := r.answer(); err != nil {
			return err
		}
		kids, err := children(r.cmd.Process.Pid)
		if err != nil {
			return err
		}
		for _, pid := range kids {
			if what, ok := strings.CutPrefix(strings.Fields(commandLine(pid) + " -")[0], "custody-"); ok {
				pids[what] = pid
			}
		}
	}
	end, err := b.survivor(pids)
	if err != nil {
		return err
	}
	defer end()
	// The runtime's scavenger, and the keeper's notes, of which the last comes
	// after 34 s.
	if settle := 45 * time.Second; b.quick {
		time.Sleep(5 * time.Second)
	} else {
		time.Sleep(settle)
	}
	before := map[string]int{}
	for what, pid := range pids {
		if before[what], err = switches(pid); err != nil {
			return err
		}
	}
	time.Sleep(wait)
	woken := map[string]float64{}
	for what, pid := range pids {
		n, err := switches(pid)
		if err != nil {
			return err
		}
		woken[what] = float64(n-before[what]) * float64(time.Minute) / float64(wait)
	}
	const empty = "an empty Go program"
	kb, err := private(pids[empty])
	if err != nil {
		return err
	}
	note(empty, fmt.Sprintf("%.1f MB private, %.0f wake-ups a minute", float64(kb)/1024, woken[empty]))
	for _, what := range []string{"watchdog", "keeper", survivorsKeeper, survivorsSpare} {
		kb, err := private(pids[what])
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		b.aim(kb <= 4096, what+", private memory", fmt.Sprintf("%.1f MB", float64(kb)/1024), "≤ 4 MB")
		b.aim(woken[what] <= woken[empty]+2, what+", wake-ups a minute", fmt.Sprintf("%.0f", woken[what]), "≤ the empty one's + 2")
	}
	return nil
}

const (
	survivorsKeeper = "keeper of custody start"
	survivorsSpare  = "spare of custody start"
)

// survivor starts a launch as a user of the command does, whose helpers carry
// everything that is linked into the command.
func (b *bench) survivor(pids map[string]int) (end func(), err error) {
	dir := filepath.Join(b.dir, "survivor")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	out, err := exec.Command(b.custody, "--dir", dir, "start", "--json", "--", "sleep", "200").Output()
	if err != nil {
		return nil, fmt.Errorf("%s start (make build makes it): %w", b.custody, err)
	}
	var st struct {
		ID     string `json:"id"`
		Keeper int    `json:"keeper_pid"`
	}
	if err := json.Unmarshal(out, &st); err != nil {
		return nil, err
	}
	pids[survivorsKeeper] = st.Keeper
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if c, _ := os.ReadFile(f); strings.HasPrefix(string(c), "custody-spare\x00of\x00"+st.ID[:8]) {
			pids[survivorsSpare], _ = strconv.Atoi(filepath.Base(filepath.Dir(f)))
		}
	}
	return func() { exec.Command(b.custody, "--dir", dir, "stop", st.ID).Run() }, nil
}

func children(pid int) ([]int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			return nil, err
		}
		for _, f := range bytes.Fields(b) {
			n, err := strconv.Atoi(string(f))
			if err != nil {
				return nil, err
			}
			pids = append(pids, n)
		}
	}
	return pids, nil
}

// switches counts the voluntary context switches of every thread.
func switches(pid int) (int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("process %d is gone", pid)
	}
	sum := 0
	for _, t := range tasks {
		n, err := field(t, "voluntary_ctxt_switches:")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// private is the memory in kB that only this process holds.
func private(pid int) (int, error) {
	sum := 0
	for _, f := range []string{"Private_Clean:", "Private_Dirty:"} {
		n, err := field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), f)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func field(path, name string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v := strings.Fields(s.Text()); len(v) > 1 && v[0] == name {
			return strconv.Atoi(v[1])
		}
	}
	return 0, fmt.Errorf("%s: no %s", path, name)
}
