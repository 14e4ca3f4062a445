package host

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Parsers for the text of /proc. They are free of system calls so that they
// can be fuzzed; a process chooses its own name, so every byte of it is
// hostile.

// ParseStat reads /proc/PID/stat (proc_pid_stat(5)). The name is whatever
// stands between the first '(' and the last ')'.
func ParseStat(b []byte) (Row, error) {
	open := bytes.IndexByte(b, '(')
	end := bytes.LastIndexByte(b, ')')
	if open < 2 || end < open {
		return Row{}, fmt.Errorf("stat: no name in %.60q", b)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	if err != nil || pid <= 0 {
		return Row{}, fmt.Errorf("stat: no pid in %.60q", b)
	}
	// Fields 3 and up: state ppid pgrp session … num_threads(20) … starttime(22).
	f := strings.Fields(string(b[end+1:]))
	const first = 3
	if len(f) <= 22-first || len(f[0]) != 1 {
		return Row{}, fmt.Errorf("stat: %d fields after the name, want at least %d", len(f), 23-first)
	}
	r := Row{PID: pid, Comm: string(b[open+1 : end]), State: f[0][0]}
	for _, v := range []struct {
		field int
		into  *int
	}{{4, &r.PPID}, {5, &r.PGID}, {6, &r.SID}, {20, &r.Threads}} {
		if *v.into, err = strconv.Atoi(f[v.field-first]); err != nil {
			return Row{}, fmt.Errorf("stat: field %d: %w", v.field, err)
		}
	}
	if r.Start, err = strconv.ParseUint(f[22-first], 10, 64); err != nil {
		return Row{}, fmt.Errorf("stat: field 22: %w", err)
	}
	return r, nil
}

// ParseExitCode reads the wait status of a zombie from its /proc/PID/stat
// (field 52, Linux 3.5). The kernel shows 0 to who may not know, so 0 is no
// answer: ErrUnsupported.
func ParseExitCode(b []byte) (uint32, error) {
	end := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[end+1:]))
	const first = 3
	if end < 0 || len(f) <= 52-first || f[0] != "Z" {
		return 0, fmt.Errorf("stat: no exit code: %w", ErrUnsupported)
	}
	v, err := strconv.ParseUint(f[52-first], 10, 32)
	if err == nil && v == 0 {
		err = fmt.Errorf("stat: exit code 0 may be hidden: %w", ErrUnsupported)
	}
	return uint32(v), err
}

// ParseChildren reads /proc/PID/task/TID/children.
func ParseChildren(b []byte) ([]int, error) {
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil || pid <= 0 {
			return nil, fmt.Errorf("children: %.20q is no pid", f)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// EnvValue finds the value of name in the bytes of /proc/PID/environ.
func EnvValue(environ []byte, name string) (string, bool) {
	prefix := []byte(name + "=")
	for len(environ) > 0 {
		var kv []byte
		kv, environ, _ = bytes.Cut(environ, []byte{0})
		if v, ok := bytes.CutPrefix(kv, prefix); ok {
			return string(v), true
		}
	}
	return "", false
}

// ParseRTTime reads the soft limit of "Max realtime timeout" from
// /proc/PID/limits; false where it is unlimited.
func ParseRTTime(limits []byte) (uint64, bool, error) {
	const name = "Max realtime timeout"
	for line := range bytes.Lines(limits) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok {
			continue
		}
		f := bytes.Fields(rest)
		if len(f) == 0 {
			break
		}
		if string(f[0]) == "unlimited" {
			return 0, false, nil
		}
		v, err := strconv.ParseUint(string(f[0]), 10, 64)
		return v, err == nil, err
	}
	return 0, false, fmt.Errorf("limits: no line %q", name)
}

// ParseCgroup returns the cgroup v2 path ("0::PATH") of /proc/PID/cgroup.
func ParseCgroup(b []byte) (string, error) {
	for line := range bytes.Lines(b) {
		if p, ok := bytes.CutPrefix(line, []byte("0::")); ok {
			return string(bytes.TrimSuffix(p, []byte("\n"))), nil
		}
	}
	return "", fmt.Errorf("cgroup: no version 2 line")
}

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	Root, Point, FSType string
}

// At returns where the mount shows a path of its file system; false if it shows
// a part that the path is not in.
func (m Mount) At(path string) (string, bool) {
	root := strings.TrimSuffix(m.Root, "/")
	rel, ok := strings.CutPrefix(path, root)
	if !ok || rel != "" && rel[0] != '/' || slices.Contains(strings.Split(rel, "/"), "..") {
		return "", false
	}
	return filepath.Join(m.Point, rel), true
}

// ParseMountinfo reads /proc/self/mountinfo, passing over lines it can't read.
func ParseMountinfo(b []byte) []Mount {
	var ms []Mount
	for line := range bytes.Lines(b) {
		// id parent dev root point options [optional…] - type source super
		head, tail, ok := strings.Cut(string(bytes.TrimSuffix(line, []byte("\n"))), " - ")
		h, t := strings.Fields(head), strings.Fields(tail)
		if !ok || len(h) < 6 || len(t) < 1 {
			continue
		}
		ms = append(ms, Mount{Root: unescape(h[3]), Point: unescape(h[4]), FSType: t[0]})
	}
	return ms
}

// unescape undoes the \ooo of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
