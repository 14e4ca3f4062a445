//go:build linux

// The test binary plays every program of these tests: the trees, the helpers,
// the owner and its neighbours.

package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
	"golang.org/x/sys/unix"
)

// roles are the programs besides trees and helpers, by first argument.
var roles = map[string]func(args []string){
	"e2e:owner":   ownerProgram,
	"e2e:adopter": adopterProgram,
	"e2e:as-root": asRootProgram,
}

func TestMain(m *testing.M) {
	tree.Main()
	custody.ServeHelper()
	if len(os.Args) > 1 {
		if role := roles[os.Args[1]]; role != nil {
			role(os.Args[2:])
			os.Exit(0)
		}
	}
	// Most of a test is waiting: run more of them than there are cores.
	flag.Parse()
	parallel := true
	flag.Visit(func(f *flag.Flag) { parallel = parallel && f.Name != "test.parallel" })
	if parallel {
		flag.Set("test.parallel", "12")
	}
	// What loses its parent comes here, and is collected by watch.collected.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	os.RemoveAll(builtIn)
	os.Exit(code)
}
