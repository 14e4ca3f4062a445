package custody_test

// Who may import whom, and who may send a signal. The arrows go down only; a
// new package has to take its place here before it is built.

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/custody-project/custody"

// arrows names, for each package, every package of ours that it may import.
var arrows = map[string]string{
	"proof":            "",
	"internal/crash":   "",
	"internal/host":    "proof",
	"internal/ledger":  "proof internal/crash",
	"internal/logfile": "proof internal/crash internal/ledger",
	"internal/engine":  "proof internal/ledger",
	"internal/contain": "proof internal/host internal/ledger internal/engine",
	"internal/unit":    "proof internal/host",
	"internal/stop":    "proof internal/crash internal/host internal/ledger internal/engine internal/contain",
	"internal/port":    "proof internal/host",
	"internal/asset":   "proof internal/crash internal/host internal/ledger",
	"internal/sweep":   "proof internal/crash internal/host internal/ledger internal/logfile internal/contain internal/stop internal/asset",
	"internal/helper":  "proof internal/crash internal/host internal/ledger internal/logfile internal/contain internal/stop internal/sweep",
	".": "proof internal/crash internal/host internal/ledger internal/contain internal/stop internal/asset " +
		"internal/sweep internal/helper internal/port internal/logfile internal/unit internal/engine",
	"reap":                   "internal/host",
	"container":              ". proof internal/host internal/ledger internal/engine internal/contain internal/stop",
	"foreground":             ". internal/host",
	"cmd/custody":            ". foreground container",
	"examples/browserpool":   ".",
	"examples/modelserver":   ".",
	"internal/tree":          "",
	"internal/unit/unittest": "",
	"internal/tree/treeprog": "internal/tree",
	"internal/bench":         ". proof internal/host internal/ledger internal/contain", // it measures them
	"internal/e2e":           "",
	"internal/promises":      "",
}

// others names the foreign modules that a package may import. What is not
// here imports the standard library only.
var others = map[string]string{
	"internal/host":   "golang.org/x/sys",
	"internal/ledger": "golang.org/x/sys",
	"internal/port":   "golang.org/x/sys",
	"internal/stop":   "golang.org/x/sys",
	"internal/helper": "golang.org/x/sys",
	"internal/tree":   "golang.org/x/sys",
	"internal/unit":   "github.com/godbus/dbus",
	"internal/bench":  "golang.org/x/sys",
	"reap":            "golang.org/x/sys",

	"internal/unit/unittest": "github.com/godbus/dbus",
	"container":              "github.com/moby/moby github.com/containerd/errdefs", // nobody else: who does not import it does not pay
	"cmd/custody":            "github.com/spf13/cobra github.com/spf13/pflag github.com/jedib0t/go-pretty golang.org/x/term",
}

// sources calls f for every file of the module that is no test's.
func sources(t *testing.T, f func(dir, path string, file *ast.File, fset *token.FileSet)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); path != "." && err == nil ||
				d.Name() == "testdata" || path != "." && strings.HasPrefix(d.Name(), ".") || path == "tools" || path == "vendor" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err == nil {
			f(filepath.ToSlash(filepath.Dir(path)), path, file, fset)
		}
		return err
	})
	must2(t, err)
}

func must2(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestImportsGoDown(t *testing.T) {
	seen := map[string]bool{}
	sources(t, func(dir, path string, file *ast.File, _ *token.FileSet) {
		seen[dir] = true
		allowed, ok := arrows[dir]
		if !ok {
			t.Errorf("%s: package %s has no place among the arrows", path, dir)
		}
		for _, spec := range file.Imports {
			p := strings.Trim(spec.Path.Value, `"`)
			own := p == module || strings.HasPrefix(p, module+"/")
			switch {
			case own:
				p = strings.TrimPrefix(strings.TrimPrefix(p, module), "/")
				if p == "" {
					p = "."
				}
				if !slices.Contains(strings.Fields(allowed), p) {
					t.Errorf("%s: may not import %s", path, p)
				}
			case strings.Contains(strings.Split(p, "/")[0], "."):
				if !slices.ContainsFunc(strings.Fields(others[dir]), func(m string) bool {
					return p == m || strings.HasPrefix(p, m+"/")
				}) {
					t.Errorf("%s: may not import %s", path, p)
				}
			}
		}
	})
	for dir := range arrows {
		if !seen[dir] {
			t.Errorf("there is no package %s", dir)
		}
	}
}

// The arrows have no circle, and nothing but the commands stands above the
// root package.
func TestArrowsHaveNoCircle(t *testing.T) {
	var visit func(dir string, below []string)
	visit = func(dir string, below []string) {
		if slices.Contains(below, dir) {
			t.Fatalf("a circle: %v %s", below, dir)
		}
		for _, d := range strings.Fields(arrows[dir]) {
			visit(d, append(slices.Clone(below), dir))
		}
	}
	for dir := range arrows {
		visit(dir, nil)
	}
}

// tools are packages that are no part of what runs at a user's.
var tools = []string{"internal/unit/unittest", "internal/tree", "internal/tree/treeprog", "internal/bench"}

// senders are the calls by which a signal may leave this module, by file, with
// how many there are.
var senders = map[string]int{
	"internal/stop/signal_linux.go PidfdSendSignal": 3, // the choke point
	"internal/helper/roles_linux.go Tgkill":         1, // ourselves
	"internal/host/terminal_linux.go Kill":          1, // ourselves
	"internal/crash/crash.go .Kill":                 1, // ourselves, in a test
	"internal/helper/watchdog_linux.go .Kill":       1, // the owner, to its own child by the handle it started it with
	"internal/helper/nsinit_linux.go .Signal":       1, // the init of a PID namespace, to its own child
	"internal/unit/scope.go .Signal":                1, // one of D-Bus, received
	"process.go .Signal":                            2, // Process.Signal and Kill, which end in the choke point
	"stopping.go .Kill":                             1, // an order to the keeper
	"foreground/foreground.go .Signal":              1, // Launch.Signal, which ends there too
	"cmd/custody/demo.go .Kill":                     3, // the demo's own processes, by the handle it started them with
	"cmd/custody/demo.go .Signal":                   3, // signal 0 to them
}

func TestSignalsLeaveByOneDoor(t *testing.T) {
	found := map[string]int{}
	sources(t, func(dir, path string, file *ast.File, fset *token.FileSet) {
		if slices.Contains(tools, dir) {
			return
		}
		path = filepath.ToSlash(path)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if strings.HasPrefix(n.Sel.Name, "SYS_") && strings.Contains(n.Sel.Name, "KILL") ||
					n.Sel.Name == "SYS_PIDFD_SEND_SIGNAL" || strings.HasPrefix(n.Sel.Name, "SYS_RT_SIGQUEUE") || strings.HasPrefix(n.Sel.Name, "SYS_RT_TGSIGQUEUE") {
					t.Errorf("%s: a signal by raw system call", fset.Position(n.Pos()))
				}
			case *ast.BasicLit:
				if strings.Contains(n.Value, "cgroup.kill") && dir != "internal/stop" && dir != "internal/host" {
					t.Errorf("%s: cgroup.kill is for package stop", fset.Position(n.Pos()))
				}
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, _ := sel.X.(*ast.Ident)
				system := pkg != nil && (pkg.Name == "unix" || pkg.Name == "syscall")
				switch name := sel.Sel.Name; {
				case system && slices.Contains([]string{"Kill", "Tgkill", "Tkill", "PidfdSendSignal", "RtSigqueueinfo"}, name):
					found[path+" "+name]++
					if dir != "internal/stop" && !isGetpid(n.Args[0]) {
						t.Errorf("%s: %s to somebody else than ourselves", fset.Position(n.Pos()), name)
					}
				case !system && (name == "Kill" && len(n.Args) == 0 || name == "Signal" && len(n.Args) == 1):
					found[path+" ."+name]++
				}
			}
			return true
		})
	})
	for what, n := range found {
		if senders[what] != n {
			t.Errorf("%s: %d calls, %d are known", what, n, senders[what])
		}
	}
	for what, n := range senders {
		if found[what] == 0 {
			t.Errorf("%s: %d are known, and none is there", what, n)
		}
	}
}

// acts are the calls by which a container may be acted on, by file. The first
// two are a start's, of what it has just made; package stop asks for the
// others after a look that proves.
var acts = map[string]int{
	"container/start.go ContainerCreate":   1,
	"container/start.go ContainerStart":    1,
	"container/engine.go ContainerKill":    1,
	"container/engine.go ContainerUnpause": 1,
	"container/engine.go ContainerRemove":  1,
	"internal/stop/container.go Signal":    1,
	"internal/stop/container.go Remove":    1,
}

func TestContainersAreActedOnByOneDoor(t *testing.T) {
	asks := []string{"ContainerInspect", "ContainerList", "ContainerLogs", "ContainerWait"}
	found := map[string]int{}
	sources(t, func(dir, path string, file *ast.File, _ *token.FileSet) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name := sel.Sel.Name
			cli, _ := sel.X.(*ast.Ident)
			engines := strings.HasPrefix(name, "Container") && dir == "container" && cli != nil && cli.Name == "cli" && !slices.Contains(asks, name)
			ours := name == "Signal" && len(call.Args) == 4 || name == "Remove" && len(call.Args) == 3
			if engines || ours {
				found[filepath.ToSlash(path)+" "+name]++
			}
			return true
		})
	})
	for what, n := range found {
		if acts[what] != n {
			t.Errorf("%s: %d calls, %d are known", what, n, acts[what])
		}
	}
	for what, n := range acts {
		if found[what] == 0 {
			t.Errorf("%s: %d are known, and none is there", what, n)
		}
	}
}

func isGetpid(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Getpid"
}

// A file without a build tag has no business with the system's name.
func TestNoSystemInPlainFiles(t *testing.T) {
	sources(t, func(dir, path string, file *ast.File, fset *token.FileSet) {
		if tagged(path, file) || slices.Contains(tools, dir) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "runtime" && sel.Sel.Name == "GOOS" {
				t.Errorf("%s: runtime.%s", fset.Position(n.Pos()), sel.Sel.Name)
			}
			return true
		})
	})
}

func tagged(path string, file *ast.File) bool {
	for _, sys := range []string{"linux", "darwin", "windows", "freebsd", "unix"} {
		if strings.HasSuffix(path, "_"+sys+".go") {
			return true
		}
	}
	for _, g := range file.Comments {
		for _, c := range g.List {
			if c.Pos() < file.Package && constraint.IsGoBuild(c.Text) {
				return true
			}
		}
	}
	return false
}
