// Children that only KILL ends, and a leader that is no better. Announces n
// times child, then leader.

package tree

func init() { register("term-ignore", termIgnore) }

func termIgnore(p *proc) {
	n := p.Int("n", 2, "number of children")
	leader := p.String("leader", "ignore", "ignore, or obey the signals")
	p.parse()
	for range *n {
		p.spawn(child{role: "child", args: []string{"-ignore", "all"}})
	}
	if *leader != "obey" {
		p.ignore("all")
	}
	p.announce()
	p.park()
}
