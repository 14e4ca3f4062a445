// The leader ends and the rest of its group lives on. Announces n times
// member, then leader.

package tree

import (
	"time"
)

func init() { register("leader-dies", leaderDies) }

func leaderDies(p *proc) {
	how := p.String("leader", "exit", "exit, signal, or stay for somebody else to end it")
	code := p.Int("code", 0, "exit code of the leader")
	sig := p.String("signal", "KILL", "signal the leader dies of")
	after := p.Duration("after", 0, "wait before the leader's end")
	n := p.Int("n", 3, "members that live on")
	ignored := p.String("ignore", "", "signals the members are deaf to")
	group := p.Bool("pgrp", false, "the leader makes a group of its own first")
	p.parse()
	if *group {
		p.must(ownGroup())
	}
	for range *n {
		p.spawn(child{role: "member", args: []string{"-ignore", *ignored}})
	}
	p.announce()
	switch *how {
	case "exit":
		time.Sleep(*after)
		p.end(*code, "")
	case "signal":
		time.Sleep(*after)
		p.end(0, *sig)
	case "stay":
		p.park()
	default:
		p.fail("no way to end is named %q", *how)
	}
	quit(exitUsage)
}
