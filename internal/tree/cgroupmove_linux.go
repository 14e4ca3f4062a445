// A child that moves itself to another cgroup and so leaves whatever watches
// the first one, but not its lineage. Announces moved, leader.

package tree

import (
	"os"
	"path/filepath"
)

func init() { register("cgroup-move", cgroupMove) }

func cgroupMove(p *proc) {
	to := p.String("to", "", "directory of a version 2 cgroup")
	ignored := p.String("ignore", "", "signals the child is deaf to")
	p.parse()
	if *to == "" {
		p.fail("-to is missing")
	}
	if p.role == "leader" {
		p.spawn(child{prog: "cgroup-move", role: "moved", args: []string{
			"-to", *to, "-ignore", *ignored}})
	} else {
		p.ignore(*ignored)
		p.must(os.WriteFile(filepath.Join(*to, "cgroup.procs"), []byte("0"), 0))
	}
	p.announce()
	p.park()
}
