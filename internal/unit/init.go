package unit

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// initialNS is the inode number of the initial PID namespace
// (PROC_PID_INIT_INO, include/linux/proc_ns.h, since Linux 3.8).
const initialNS = "pid:[4026531836]"

// managers are programs that as PID 1 outlive what they start. What else they
// are called can't be known, so nothing is refused for a name.
var managers = []string{"systemd", "init", "runit", "runsvdir", "s6-svscan", "openrc-init", "supervisord", "dinit", "shepherd"}

// init says if PID 1 outlives the owner: with PID 1 the kernel kills everything
// in its PID namespace (pid_namespaces(7)), and a container is one.
func (s Surroundings) init() Finding {
	f := Finding{Name: Init, Remedy: "run the owner below an init that outlives it, or start the launch outside of this container"}
	me := s.pid()
	if me == 1 {
		f.Lives, f.Detail = proof.No, "we are PID 1 ourselves: when we end, the kernel kills everything else here"
		return f
	}
	// Down from PID 1: the child of it that we descend from.
	below, down := 0, me
	for range 1 << 16 {
		b, err := s.proc(down, "stat")
		var row host.Row
		if err == nil {
			row, err = host.ParseStat(b)
		}
		if err != nil {
			f.Detail = fmt.Sprintf("our ancestors can't be read: %v", err)
			return f
		}
		if row.PPID == 1 {
			below = down
		}
		if down = row.PPID; down <= 1 {
			break
		}
	}
	ns, err := os.Readlink(s.file("proc", "self", "ns", "pid"))
	container := err == nil && ns != initialNS
	one, oneErr := s.command(1)
	name := path.Base(or(one, "?"))
	if below != 0 && oneErr == nil {
		child, err := s.command(below)
		switch {
		case err == nil && runs(one, child) && below == me:
			f.Lives = proof.No
			f.Detail = fmt.Sprintf("PID 1 (%s) was started to run us: it ends with us, and the kernel kills everything else here", name)
			return f
		case err == nil && runs(one, child):
			f.Detail = fmt.Sprintf("PID 1 (%s) ends with process %d (%s), above us, and everything here with it", name, below, path.Base(child[0]))
			return f
		}
	}
	switch {
	case err != nil:
		f.Detail = fmt.Sprintf("our PID namespace can't be read: %v", err)
		return f
	case container && below != 0 && (oneErr != nil || !slices.Contains(managers, name)):
		f.Detail = fmt.Sprintf("in this container PID 1 (%s) started us and may end with us, and everything here with it", name)
		return f
	case container:
		f.Detail = fmt.Sprintf("everything in this container lives as long as its PID 1 (%s), which does not end with us", name)
	default:
		f.Detail = "PID 1 is the machine's own"
	}
	f.Lives, f.Remedy = proof.Yes, ""
	return f
}

// command returns the arguments of a process.
func (s Surroundings) command(pid int) ([]string, error) {
	b, err := s.proc(pid, "cmdline")
	if err != nil {
		return nil, err
	}
	b = bytes.TrimSuffix(b, []byte{0})
	if len(b) == 0 {
		return nil, fmt.Errorf("process %d has no command line", pid)
	}
	return strings.Split(string(b), "\x00"), nil
}

// runs reports whether a command line ends with that of another one, as that
// of an init whose work is to run it (tini -- server --port 80) does.
func runs(init, child []string) bool {
	n := len(init) - len(child)
	return n > 0 && slices.Equal(init[n:], child)
}

func or(args []string, none string) string {
	if len(args) == 0 {
		return none
	}
	return args[0]
}
