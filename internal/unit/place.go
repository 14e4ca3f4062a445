package unit

import (
	"bytes"
	"strconv"
	"strings"
)

// place is where systemd keeps a process, as its cgroup's path tells
// (systemd's CGROUP_DELEGATION: units are directories named after them, below
// directories of slices). The zero place is in no unit.
type place struct {
	unit string // of the system manager: foo.service, session-3.scope, user@1000.service
	user string // of the user manager in user@UID.service
	uid  int    // whose session or user manager it is; -1 if nobody's
	path string // the innermost unit's cgroup, from the root of the hierarchy
}

// inner is the innermost unit.
func (p place) inner() string {
	if p.user != "" {
		return p.user
	}
	return p.unit
}

// managed reports whether a user manager holds it.
func (p place) managed() bool { return strings.HasPrefix(p.unit, "user@") }

func (s Surroundings) place() (place, error) {
	b, err := s.proc(s.pid(), "cgroup")
	if err != nil {
		return place{}, err
	}
	return parsePlace(b), nil
}

// parsePlace reads /proc/PID/cgroup (cgroups(7)): the unified hierarchy, else
// the one that systemd keeps for itself on version 1.
func parsePlace(b []byte) place {
	at := place{uid: -1}
	for line := range bytes.Lines(b) {
		f := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(f) != 3 || f[1] != "" && f[1] != "name=systemd" {
			continue
		}
		if p := parsePath(f[2]); p.unit != "" && (at.unit == "" || f[1] == "") {
			at = p
		}
	}
	return at
}

func parsePath(path string) place {
	at := place{uid: -1}
	rest := ""
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		rest += "/" + part
		name := strings.TrimPrefix(part, "_") // systemd's escape
		if id, ok := strings.CutPrefix(name, "user-"); ok {
			if uid, err := strconv.Atoi(strings.TrimSuffix(id, ".slice")); err == nil && at.unit == "" {
				at.uid = uid
			}
		}
		if !strings.HasSuffix(name, ".service") && !strings.HasSuffix(name, ".scope") {
			continue // a slice, or what is no unit's
		}
		if at.unit == "" {
			at.unit, at.path = name, rest
			if id, ok := strings.CutPrefix(name, "user@"); ok {
				if uid, err := strconv.Atoi(strings.TrimSuffix(id, ".service")); err == nil {
					at.uid = uid
					continue // and a unit of the user manager's may follow
				}
			}
			break
		}
		at.user, at.path = name, rest
		break
	}
	if !at.managed() && !at.session() {
		at.uid = -1
	}
	return at
}

// session reports whether it is in the scope of a login session.
func (p place) session() bool {
	return strings.HasPrefix(p.unit, "session-") && strings.HasSuffix(p.unit, ".scope")
}
