// A daemon made the old way. Its starter led a new session and is gone, so the
// daemon has no living ancestor in the tree, and its session and group are led
// by nobody. Announces daemon, starter, leader.

package tree

func init() { register("double-fork", doubleFork) }

func doubleFork(p *proc) {
	clearEnv := p.Bool("clear-env", true, "start the daemon with an empty environment")
	ignored := p.String("ignore", "", "signals the daemon is deaf to")
	leader := p.String("leader", "stay", "stay, or exit once the daemon is there")
	code := p.Int("code", 0, "exit code of a leader that exits")
	p.parse()
	if p.role == "starter" {
		p.spawn(child{role: "daemon", args: []string{"-ignore", *ignored}})
		p.announce()
		return
	}
	p.daemonize(*clearEnv, "-ignore", *ignored)
	p.announce()
	if *leader == "exit" {
		quit(*code)
	}
	p.park()
}

// daemonize leaves a double-forked daemon, a plain sleeper.
func (p *proc) daemonize(clearEnv bool, args ...string) {
	starter := p.spawn(child{prog: "double-fork", role: "starter", session: true,
		clearEnv: clearEnv, args: args})
	p.must(starter.Wait())
}
