package port

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// From sockets to processes: the descriptors of a process are links in
// /proc/PID/fd, a socket's reads "socket:[INODE]". Those of other users, and of
// processes that hide, can't be read.

// holding walks all processes and says by bare number who holds which socket.
func holding(socks []Socket) (map[uint64][]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("who holds the port: %w", err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("who holds the port: %w", err)
	}
	want := map[uint64]bool{}
	for _, s := range socks {
		want[s.Inode] = true
	}
	found := map[uint64][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		descriptors(pid, func(inode uint64) { // one that ended or hides holds nothing that we could see
			if want[inode] && !slices.Contains(found[inode], pid) {
				found[inode] = append(found[inode], pid)
			}
		})
	}
	for _, pids := range found {
		slices.Sort(pids)
	}
	return found, nil
}

// holdsNow reports whether the process of this number holds a socket.
func holdsNow(pid int, inode uint64) (bool, error) {
	holds := false
	err := descriptors(pid, func(i uint64) { holds = holds || i == inode })
	return holds, err
}

// descriptors calls f for each socket of a process.
func descriptors(pid int, f func(inode uint64)) error {
	dir := "/proc/" + strconv.Itoa(pid)
	n, err := sockets(dir+"/fd", f)
	if n > 0 {
		return err
	}
	// A process whose main thread ended while others work on shows no
	// descriptors of its own; its threads do.
	d, e := os.Open(dir + "/task")
	if e != nil {
		return e
	}
	defer d.Close()
	tasks, e := d.Readdirnames(-1)
	if e != nil {
		return e
	}
	for _, t := range tasks {
		if t == strconv.Itoa(pid) {
			continue
		}
		if n, _ := sockets(dir+"/task/"+t+"/fd", f); n > 0 {
			return nil // the threads share them
		}
	}
	return err
}

// sockets reads one directory of descriptors and returns how many there are.
func sockets(dir string, f func(inode uint64)) (int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	fds, err := d.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	for _, fd := range fds {
		link, err := os.Readlink(dir + "/" + fd)
		if err != nil {
			continue // closed meanwhile
		}
		if s, ok := strings.CutPrefix(link, "socket:["); ok {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(s, "]"), 10, 64); err == nil {
				f(inode)
			}
		}
	}
	return len(fds), nil
}
