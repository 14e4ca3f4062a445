// Package host asks the kernel. It is the only place that opens process
// handles, reads process tables and learns where we are; what the answers mean
// is decided in package proof, and who is signalled in package stop.
//
// Everything read about a process by its number is read between two looks at
// its handle, so that the number is known to have meant that process all
// along.
package host

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
)

// ErrUnsupported is returned where this system or kernel lacks the mechanism.
// It matches errors.ErrUnsupported.
var ErrUnsupported = errors.ErrUnsupported

// Without reports whether a mechanism is switched off for a test, by a comma
// separated list in CUSTODY_DEBUG_WITHOUT. It can only take guarantees away:
// what is off is answered as an older kernel would answer it. Names: pidfd,
// handle, inode, info, children, cgroup, brand, sockdiag.
func Without(mechanism string) bool {
	for _, m := range without() {
		// A kernel without process handles has nothing that hangs on one.
		if m == mechanism || m == "pidfd" && (mechanism == "handle" || mechanism == "inode" || mechanism == "info") {
			return true
		}
	}
	return false
}

var without = sync.OnceValue(func() []string {
	v := os.Getenv("CUSTODY_DEBUG_WITHOUT")
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
})

// Row is one line of the process table: a candidate, never a proof.
type Row struct {
	PID, PPID, PGID, SID int
	State                byte
	Threads              int
	Start                uint64 // clock ticks since boot
	Comm                 string
}

// Zombie reports whether the row shows no thread but a dead main one. A
// process whose main thread ended while others work on shows state Z too, so
// this is a hint; the handle knows.
func (r Row) Zombie() bool { return r.State == 'Z' || r.State == 'X' }

// Place is where we are: a record made at another place is not ours to act on.
type Place struct {
	Host  string // machine id; empty where the system has none
	Boot  string // kernel boot id
	PIDNS uint64 // id of our PID namespace
}

// Table is one walk over the processes of the host.
type Table struct {
	Rows map[int]Row
	kids map[int][]int

	// Who carries which mark, of the processes started at tick read or later;
	// each is read once a table.
	read    uint64
	branded map[Brand][]int
	cookied map[string][]int
}

// NewTable indexes rows.
func NewTable(rows map[int]Row) *Table {
	t := &Table{Rows: rows, kids: map[int][]int{}, read: math.MaxUint64, branded: map[Brand][]int{}, cookied: map[string][]int{}}
	for pid, r := range rows {
		t.kids[r.PPID] = append(t.kids[r.PPID], pid)
	}
	return t
}

// Children lists the pids whose parent is pid.
func (t *Table) Children(pid int) []int { return t.kids[pid] }

// Marked lists the processes, started at tick since or later, that carry the
// brand or have the cookie as the value of variable env: candidates, read by
// bare number. Each process is read once a table, and a launch that nobody
// carries the mark of costs two look-ups, however many processes there are.
func (t *Table) Marked(env, cookie string, brand Brand, since uint64) []int {
	t.readMarks(env, since)
	var pids []int
	for _, pid := range t.branded[brand] {
		if t.Rows[pid].Start >= since {
			pids = append(pids, pid)
		}
	}
	for _, pid := range t.cookied[cookie] {
		if t.Rows[pid].Start >= since && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (t *Table) readMarks(env string, since uint64) {
	if since >= t.read {
		return
	}
	for pid, r := range t.Rows {
		if r.Start >= since && r.Start < t.read {
			t.readMark(env, pid)
		}
	}
	t.read = since
}

func (t *Table) readMark(env string, pid int) {
	if pid <= 1 {
		return
	}
	if b := PeekBrand(pid); b != 0 {
		t.branded[b] = append(t.branded[b], pid)
	}
	if env == "" {
		return
	}
	if v, ok := PeekEnv(pid, env); ok {
		t.cookied[v] = append(t.cookied[v], pid)
	}
}
