// A descendant that adopts the orphans below it and collects none of them:
// their starters are its zombies, and the orphans live in groups of their own.
// Announces n times grandchild and starter, then -dead times dead, reaper and
// leader.

package tree

import (
	"time"

	"golang.org/x/sys/unix"
)

func init() { register("subreaper-child", subreaperChild) }

func subreaperChild(p *proc) {
	n := p.Int("n", 2, "live grandchildren")
	dead := p.Int("dead", 1, "children that ended and stay uncollected")
	ignored := p.String("ignore", "", "signals the reaper and the grandchildren are deaf to")
	p.parse()
	switch p.role {
	case "starter":
		p.spawn(child{role: "grandchild", group: true, args: []string{"-ignore", *ignored}})
		p.announce()
		return
	case "reaper":
		p.must(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		for range *n {
			s := p.spawn(child{prog: "subreaper-child", role: "starter",
				args: []string{"-ignore", *ignored}})
			for !hasEnded(s.Process.Pid) {
				time.Sleep(time.Millisecond)
			}
		}
		for range *dead {
			p.leaveDead("dead")
		}
		p.ignore(*ignored)
	default:
		c := p.spawn(child{prog: "subreaper-child", role: "reaper", args: p.args})
		defer c.Wait()
	}
	p.announce()
	p.park()
}
