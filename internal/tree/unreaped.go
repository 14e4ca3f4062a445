//go:build unix

// A live parent that never collects its dead children: each pid is still
// taken, and a signal 0 still says yes. Announces n times dead, then leader.

package tree

import "time"

func init() { register("unreaped", unreaped) }

func unreaped(p *proc) {
	n := p.Int("n", 3, "number of dead children")
	p.parse()
	for range *n {
		p.leaveDead("dead")
	}
	p.announce()
	p.park()
}

// leaveDead makes a zombie: a child that has ended and is not waited for.
func (p *proc) leaveDead(role string) {
	pid := p.spawn(child{prog: "exit", role: role}).Process.Pid
	for !hasEnded(pid) {
		time.Sleep(time.Millisecond)
	}
}
