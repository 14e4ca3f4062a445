// A member that is not dumpable: its /proc files belong to root, and another
// process of the same user cannot read them. Announces itself.

package tree

import "golang.org/x/sys/unix"

func init() { register("nondump", nonDump) }

func nonDump(p *proc) {
	ignored := p.String("ignore", "", "signals to be deaf to")
	p.parse()
	p.must(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	p.ignore(*ignored)
	p.announce()
	p.park()
}
