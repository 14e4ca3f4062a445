package custody_test

import (
	"os"
	"testing"

	"github.com/custody-project/custody"
)

// The files a kept launch is given are closed in its keeper once, and not a
// second time under a number that is another file's by then: the log's, say.
func TestKeeperClosesHandedFilesOnce(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	c := survivor(o, &custody.LogSpec{MaxBytes: 4096, Files: 2}, "/bin/sh", "-c",
		`i=0; while [ $i -lt 60000 ]; do i=$((i+1)); echo line $i; done; exec sleep 30`)
	for range 16 {
		f, err := os.Open(os.DevNull)
		must(t, err)
		defer f.Close()
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	must(t, c.Start())
	id := c.Launch().ID().String()
	until(t, "the log has the last line", func() bool {
		st := status(t, dir, id)
		b, _ := os.ReadFile(st.Log.Path)
		n := len("line 60000\n")
		return st.Log.Lost > 0 || len(b) >= n && string(b[len(b)-n:]) == "line 60000\n"
	})
	if st := status(t, dir, id); st.Log.Lost > 0 {
		t.Errorf("%d bytes of the output were lost", st.Log.Lost)
	}
	_, err := c.Launch().Stop(t.Context())
	must(t, err)
}
