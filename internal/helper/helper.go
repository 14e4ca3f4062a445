// Package helper holds the helper processes: the program itself, or the
// custody binary, executed again in a role of its own.
//
//	watchdog  one an owner; sweeps the owner's launches when it dies
//	keeper    one a kept launch; parent and subreaper of its tree
//	spare     reads a launch's output should its keeper be killed
//	starter   starts the keeper of a launch that outlives its owner, and ends
//	nsinit    PID 1 of a launch's own PID namespace, parent of the command
//	enter     becomes a launch's leader on a terminal, then executes the command
//	mirror    ends with a given wait status, so that exec.ExitError stays itself
//	probe     ends at once
package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"github.com/custody-project/custody/internal/crash"
)

// roleEnv names the role, argsEnv its arguments in JSON. They are taken out of
// the environment before anything else runs.
const (
	roleEnv = "CUSTODY_HELPER"
	argsEnv = "CUSTODY_HELPER_ARGS"
)

var serves atomic.Bool

// Main runs the role this process was started in, and exits; in a process that
// was started in none it notes that the program can serve as its own helper,
// and returns.
func Main() {
	role := os.Getenv(roleEnv)
	if role == "" {
		serves.Store(true)
		return
	}
	args := os.Getenv(argsEnv)
	os.Unsetenv(roleEnv)
	os.Unsetenv(argsEnv)
	crash.Role = role
	// A helper lives as long as its owner and does nothing: keep it small.
	debug.SetGCPercent(50)
	f, ok := roles[role]
	if !ok {
		fmt.Fprintf(os.Stderr, "custody: helper role %q: unknown; owner and helper are of different versions\n", role)
		os.Exit(125)
	}
	os.Exit(f([]byte(args)))
}

// settleDown gives back what a helper needed to come up and, now that it only
// waits, needs no more: mostly what the packages of the program made for it.
func settleDown() { debug.FreeOSMemory() }

// rouse is its opposite, for a helper that has a tree to end. Until then one
// thread at a time is enough, and costs less memory.
func rouse() { runtime.GOMAXPROCS(2) }

// Binary is a program that can serve as helper.
type Binary struct{ path string }

// ErrNoHelper is returned where no program can serve as helper.
var ErrNoHelper = errors.New("no helper: call custody.ServeHelper first thing in main, so that the program can serve as its own helper, or install the custody binary beside the program or in PATH")

// Find finds the program that serves as helper: this program if it called
// Main, else path if given, else the custody binary beside this program or in
// PATH.
func Find(path string) (Binary, error) {
	if path != "" {
		abs, err := filepath.Abs(path)
		if err == nil {
			_, err = exec.LookPath(abs)
		}
		if err != nil {
			return Binary{}, fmt.Errorf("helper %s: %w", path, err)
		}
		return Binary{path: abs}, nil
	}
	if serves.Load() {
		return Binary{path: selfExe}, nil
	}
	if exe, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(exe), "custody")
		if _, err := exec.LookPath(beside); err == nil && beside != exe {
			return Binary{path: beside}, nil
		}
	}
	if p, err := exec.LookPath("custody"); err == nil {
		if abs, err := filepath.Abs(p); err == nil {
			return Binary{path: abs}, nil
		}
	}
	return Binary{}, ErrNoHelper
}

// command prepares a helper. It starts in the root directory with a bare
// environment; title is what ps shows beside the role.
func (b Binary) command(role string, args any, title ...string) (*exec.Cmd, error) {
	if b.path == "" {
		return nil, ErrNoHelper
	}
	j, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	c := &exec.Cmd{
		Path: b.path,
		Args: append([]string{"custody-" + role}, title...),
		Dir:  "/",
		Env:  []string{roleEnv + "=" + role, argsEnv + "=" + string(j), "GOMAXPROCS=1", "GOTRACEBACK=none"},
	}
	for _, kv := range os.Environ() {
		for _, keep := range []string{"PATH=", "HOME=", "TMPDIR=", "CUSTODY_DEBUG_WITHOUT=", "CUSTODY_TEST_CRASH=", "CUSTODY_TEST_PAUSE=", "GOCOVERDIR="} {
			if strings.HasPrefix(kv, keep) {
				c.Env = append(c.Env, kv)
			}
		}
	}
	return c, nil
}
