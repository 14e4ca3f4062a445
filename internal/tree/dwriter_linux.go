// A child that writes in a directory. On a frozen file system it waits in a
// state that not even KILL ends, until the thaw. Announces writer (before it
// writes), leader.

package tree

import (
	"os"
	"path/filepath"
	"runtime"
	"time"
)

func init() {
	register("d-writer", dWriter)
	if len(os.Args) > 1 && os.Args[1] == "tree:d-writer" {
		runtime.LockOSThread() // the main thread is to wait: its state is the process's
	}
}

func dWriter(p *proc) {
	dir := p.String("dir", "", "the directory")
	p.parse()
	if *dir == "" {
		p.fail("-dir is missing")
	}
	if p.role == "leader" {
		p.spawn(child{prog: "d-writer", role: "writer", args: []string{"-dir", *dir}})
		p.announce()
		p.park()
	}
	p.announce()
	for {
		f, err := os.Create(filepath.Join(*dir, "written"))
		if err == nil {
			f.WriteString("here\n")
			f.Close()
		}
		time.Sleep(20 * time.Millisecond)
	}
}
