// Members that start the next and exit at once, so that a look at the process
// table is out of date before it is complete. Bounded: n members in all, in
// width lines of succession. Announces leader first, then each member.

package tree

import (
	"strconv"
	"time"
)

func init() { register("forkstorm", forkStorm) }

const (
	mostForks = 2000
	mostLines = 16
)

func forkStorm(p *proc) {
	n := p.Int("n", 50, "members in all")
	width := p.Int("width", 4, "members at a time")
	each := p.Duration("each", 0, "the life of a member beyond the start of the next")
	group := p.Bool("pgrp", false, "each member leads a group of its own")
	p.parse()
	if *n > mostForks || *width > mostLines || *width < 1 {
		p.fail("at most %d members in at most %d lines", mostForks, mostLines)
	}
	next := func(left int) child {
		return child{prog: "forkstorm", role: "member", group: *group, args: []string{
			"-n", strconv.Itoa(left), "-each", each.String(),
			"-pgrp=" + strconv.FormatBool(*group)}}
	}
	p.announce()
	if p.role == "member" {
		if *n > 1 {
			_, ready := p.launch(next(*n - 1))
			ready.Close()
		}
		time.Sleep(*each)
		return
	}
	for i := range *width {
		share := *n / *width
		if i < *n%*width {
			share++
		}
		if share > 0 {
			cmd, ready := p.launch(next(share))
			ready.Close()
			go cmd.Wait()
		}
	}
	p.park()
}
