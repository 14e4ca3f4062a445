// The plainest process: it is there until something ends it. Most members of
// the other trees are one of these.

package tree

func init() { register("sleep", sleep) }

func sleep(p *proc) {
	ignored := p.String("ignore", "", "signals to be deaf to, such as TERM,INT or all")
	p.parse()
	p.ignore(*ignored)
	p.announce()
	p.park()
}
