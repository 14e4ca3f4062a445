package custody_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/host"
)

// smallMemory makes a memory cgroup of 128 MB.
func smallMemory(t *testing.T) string {
	t.Helper()
	counter := string(host.MemoryCgroupOf(os.Getpid()))
	limit := "memory.limit_in_bytes"
	if filepath.Base(counter) != "memory.oom_control" {
		limit = "memory.max"
		counter = filepath.Join(unifiedRoot(t), "memory.events")
		if err := os.WriteFile(filepath.Join(filepath.Dir(counter), "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			t.Skip("no writable cgroup with a memory controller: ", err)
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(counter), "custody-test-")
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("no writable cgroup: ", err)
	}
	must(t, err)
	t.Cleanup(func() {
		until(t, "its memory cgroup is empty", func() bool { return syscall.Rmdir(dir) == nil })
	})
	must(t, os.WriteFile(filepath.Join(dir, limit), []byte("134217728"), 0))
	return dir
}

// An end for lack of memory is told from any other KILL, also when nobody
// watched.
func TestOutOfMemory(t *testing.T) {
	memory := smallMemory(t)
	// Without the cgroup's limit it would end by its own one.
	const eater = "ulimit -v 600000; exec tail /dev/zero"
	for what, c := range map[string]struct {
		script string
		kill   bool // stop it by KILL once its child was killed
		want   custody.Exit
	}{
		"out of memory":                   {eater, false, custody.Exit{Code: -1, Signal: "KILL", OOM: true}},
		"killed":                          {"kill -KILL $$", false, custody.Exit{Code: -1, Signal: "KILL"}},
		"only its child is out of memory": {"(" + eater + "); exit 7", false, custody.Exit{Code: 7}},
		"its child was, and it was ended": {"(" + eater + "); kill -TERM $$", false, custody.Exit{Code: -1, Signal: "TERM"}},
		"its child was, and we killed it": {"(" + eater + "); echo over >over; exec sleep 60", true, custody.Exit{Code: -1, Signal: "KILL"}},
	} {
		t.Run(what, func(t *testing.T) {
			path, err := binary()
			must(t, err)
			dir, cwd := stateDir(t), t.TempDir()
			cmd := exec.Command("sh", "-c", `echo $$ >"$0/cgroup.procs"; exec "$@"`, memory,
				path, "start", "--dir", dir, "--cwd", cwd, "--name", "n", "--phase", "KILL:5s", "--", "sh", "-c", c.script)
			var errOut bytes.Buffer
			cmd.Stderr = &errOut
			if err := cmd.Run(); err != nil {
				t.Fatal(err, errOut.String())
			}
			if c.kill {
				until(t, "its child was killed", func() bool { _, err := os.Stat(filepath.Join(cwd, "over")); return err == nil })
				if r := cli(t, nil, "stop", "--dir", dir, "n"); r.code != 0 {
					t.Errorf("%+v", r)
				}
			}
			got, err := custody.Wait(t.Context(), "n", custody.ListOptions{Dir: dir})
			if err != nil || got != c.want {
				t.Errorf("%+v %v, want %+v", got, err, c.want)
			}
			var st custody.Status
			until(t, "it has ended", func() bool {
				r := cli(t, nil, "status", "--dir", dir, "--json", "n")
				return json.Unmarshal([]byte(r.out), &st) == nil && st.State == custody.StateExited
			})
			if st.Exit == nil || *st.Exit != c.want || strings.Contains(st.Exit.String(), "out of memory") != c.want.OOM {
				t.Errorf("status: %v, want %v", st.Exit, c.want)
			}
			until(t, "the keeper is gone", func() bool {
				b, _ := os.ReadFile(filepath.Join(memory, "cgroup.procs"))
				return len(b) == 0
			})
		})
	}
}
