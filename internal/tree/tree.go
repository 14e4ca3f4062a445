// Package tree holds small programs whose only purpose is the shape of the
// process tree they grow: daemons that leave, children that will not end,
// leaders that die first. Tests of custody run them as victims.
//
// The programs are played by the running binary itself: a test binary calls
// [Main] first thing in its TestMain and starts itself with the argument list
// that [Command] gives. treeprog is the same as a binary of its own.
//
// Every process of every program ends by itself: it has a deadline (-life,
// 60 s unless told otherwise) kept by a timer of its own and, on Linux, by a
// kernel timer that also ends a stopped process. Every process announces
// itself with one line in the file named by -pids (or TREE_PIDS) once it is
// set up; see [ReadPids] and [Wait].
package tree

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// prefix marks the argument that turns a binary into a tree program.
const prefix = "tree:"

// disguise carries the program and its arguments to a process whose argument
// list has to look like something else, one argument a unit separator apart.
const disguise = "TREE_AS"

// programs is filled by the init functions of the files that hold them.
var programs = map[string]func(*proc){}

func register(name string, run func(*proc)) {
	if programs[name] != nil {
		panic("tree: two programs named " + name)
	}
	programs[name] = run
}

// Main plays a tree program, and does not return, if the argument list asks
// for one. Otherwise it does nothing.
func Main() {
	args := os.Args[1:]
	if s := os.Getenv(disguise); s != "" {
		os.Unsetenv(disguise) // for this process only, not for its children
		args = strings.Split(s, "\x1f")
	}
	if len(args) == 0 || !strings.HasPrefix(args[0], prefix) {
		return
	}
	name := strings.TrimPrefix(args[0], prefix)
	run := programs[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "tree: no program named %q here; there are: %s\n",
			name, strings.Join(Names(), " "))
		quit(exitUsage)
	}
	run(newProc(name, args[1:]))
	quit(0)
}

// Names lists the programs that this platform has, sorted.
func Names() []string {
	names := make([]string, 0, len(programs))
	for n := range programs {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Command returns the argument list that runs the named program with the
// current executable, whose main (or TestMain) has to call [Main].
func Command(name string, args ...string) []string {
	return append([]string{self(), prefix + name}, args...)
}

// self is the path of the current executable.
func self() string {
	exe, err := os.Executable()
	if err != nil {
		panic("tree: " + err.Error())
	}
	return exe
}
