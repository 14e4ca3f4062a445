package custody_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/custody-project/custody"
	"golang.org/x/sys/unix"
)

// A launch that ends while the disk is full is not forgotten: its record takes
// no more room than before.
func TestEndedOnAFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounts a small file system: needs root")
	}
	dir := stateDir(t)
	must(t, unix.Mount("none", dir, "tmpfs", 0, "size=512k,mode=0700"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	o := openOwner(t, custody.Options{Dir: dir})
	c := survivor(o, nil, "/bin/sh", "-c", `while [ ! -e "$0" ]; do sleep 0.02; done; exit 7`, filepath.Join(t.TempDir(), "go"))
	must(t, c.Start())
	id := c.Launch().ID().String()
	must(t, o.Close())
	fill(t, filepath.Join(dir, "test", "fill"))
	must(t, os.WriteFile(c.Args[3], nil, 0o600))
	x, err := custody.Wait(t.Context(), id, custody.ListOptions{Dir: dir})
	if err != nil || x.Code != 7 {
		t.Fatalf("wait: %v %v", x, err)
	}
	until(t, "the keeper has ended", func() bool { return len(running("custody-keeper of "+id[:8]+" ")) == 0 })
	st, err := custody.StatusOf(t.Context(), id, custody.ListOptions{Dir: dir})
	if err != nil || st.State != custody.StateExited || st.Exit == nil || st.Exit.Code != 7 {
		t.Errorf("afterwards: %+v %v", st, err)
	}
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for _, n := range []int{1 << 16, 1 << 12, 1} {
		for b := make([]byte, n); ; {
			if _, err := f.Write(b); err != nil {
				break
			}
		}
	}
}
