// One tree with a member of every difficult kind. Announces deaf, stopped,
// renamed, retitled, nondump, daemon, starter (gone by then) and leader.

package tree

import "time"

func init() { register("mixed", mixed) }

func mixed(p *proc) {
	leader := p.String("leader", "stay", "stay, or exit once all are there")
	p.parse()
	p.spawn(child{role: "deaf", args: []string{"-ignore", "all"}})
	stopped := p.spawn(child{prog: "stopped", role: "stopped"})
	for !hasStopped(stopped.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
	p.spawn(child{prog: "rename", role: "renamed"})
	p.spawn(child{prog: "retitle", role: "retitled"})
	p.spawn(child{prog: "nondump", role: "nondump"})
	p.daemonize(true)
	p.announce()
	if *leader == "exit" {
		return
	}
	p.park()
}
