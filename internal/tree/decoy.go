// A stranger, or a member, that looks by name and arguments as asked: its
// argument list is exactly NAME and the arguments that follow the flags, and
// its short name is NAME. Announces decoy.

package tree

import "strings"

func init() { register("decoy", decoy) }

func decoy(p *proc) {
	name := p.String("name", "decoy", "what to look like")
	worn := p.Bool("worn", false, "the disguise is on")
	p.parse()
	if !*worn {
		again := []string{prefix + "decoy", "-worn", "-name", *name, "-life", p.left().String(),
			"-pids", p.pids, "-role", "decoy"}
		if p.role != "leader" {
			again[len(again)-1] = p.role
		}
		if p.ready != nil {
			again = append(again, "-ready", p.passReady())
		}
		again = append(again, "--")
		p.become(append([]string{*name}, p.Args()...), strings.Join(append(again, p.Args()...), "\x1f"))
	}
	setName(*name)
	p.announce()
	p.park()
}
