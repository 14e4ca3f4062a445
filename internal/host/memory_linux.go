package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Whether the kernel killed for lack of memory stands nowhere in a process's
// end: it is a KILL like any other. But each memory cgroup counts its victims
// (oom_kill, Linux 4.13): in memory.events of version 2, which counts those
// below too, in memory.oom_control of version 1
// (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).

// MemoryCgroup names the counter of a memory cgroup; the zero value has none.
type MemoryCgroup string

// MemoryCgroupOf finds the one that a process is in; none where there is no
// memory controller or it can't be seen. The caller knows that the number is
// the process's own.
func MemoryCgroupOf(pid int) MemoryCgroup {
	own, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	path, name, fs, up := memoryPath(own)
	for _, m := range ParseMountinfo(mounts) {
		dir, ok := m.At(path)
		if m.FSType != fs || !ok {
			continue
		}
		// Below the last cgroup with the controller, that one counts.
		for {
			file := filepath.Join(dir, name)
			if _, err := os.Stat(file); err == nil {
				return MemoryCgroup(file)
			}
			if !up || dir == m.Point || dir == "/" {
				break
			}
			dir = filepath.Dir(dir)
		}
	}
	return ""
}

// memoryPath reads /proc/PID/cgroup: the path in the hierarchy that has the
// memory controller, the counter's file, the type of its file system, and
// whether a cgroup there may be without the controller.
func memoryPath(own []byte) (path, name, fs string, up bool) {
	for line := range bytes.Lines(own) {
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			if c == "memory" {
				return f[2], "memory.oom_control", "cgroup", false
			}
		}
		if f[1] == "" {
			path = f[2]
		}
	}
	return path, "memory.events", "cgroup2", true
}

// OOMKills returns how many processes the kernel has killed in it for lack of
// memory.
func (m MemoryCgroup) OOMKills() (uint64, error) {
	if m == "" {
		return 0, fmt.Errorf("no memory cgroup: %w", ErrUnsupported)
	}
	b, err := os.ReadFile(string(m))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			return strconv.ParseUint(string(bytes.TrimSpace(v)), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no oom_kill (Linux 4.13): %w", m, ErrUnsupported)
}
