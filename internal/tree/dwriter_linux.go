// A child that writes in a directory. On a frozen file system it waits in a
// state that not even KILL ends, until the thaw. Announces writer (before it
// writes), leader.

package tree

import (
	"os"
	"path/filepath"
	"time"
)

func init() { register("d-writer", dWriter) }

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
