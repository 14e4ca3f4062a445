//go:build unix

// A child that stopped itself: it handles no signal but KILL until somebody
// continues it. Announces child, then leader. With -leader the leader stops
// too, right after its own line.

package tree

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func init() { register("stopped", stopped) }

func stopped(p *proc) {
	session := p.Bool("setsid", false, "the child leads a session of its own")
	both := p.Bool("leader", false, "the leader stops too")
	ignored := p.String("ignore", "", "signals the child is deaf to")
	p.parse()
	if p.role != "leader" {
		p.ignore(*ignored)
		p.announce()
		p.stop()
	}
	if *both && !timerKillsStopped {
		p.fail("here nothing would end a stopped leader")
	}
	c := p.spawn(child{prog: "stopped", role: "child", session: *session,
		args: []string{"-ignore", *ignored}})
	time.AfterFunc(p.left()-100*time.Millisecond, func() { c.Process.Kill() })
	for !hasStopped(c.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
	p.announce()
	if *both {
		p.stop()
	}
	p.park()
}

// stop stops the process; continued, it just goes on living.
func (p *proc) stop() {
	unix.Kill(os.Getpid(), unix.SIGSTOP)
	p.park()
}
