// A child in a session and group of its own, out of reach of any signal to the
// leader's group but still the leader's child. Announces escapee, leader.

package tree

func init() { register("setsid-escapee", setsidEscapee) }

func setsidEscapee(p *proc) {
	clearEnv := p.Bool("clear-env", false, "start the escapee with an empty environment")
	ignored := p.String("ignore", "", "signals the escapee is deaf to")
	p.parse()
	p.spawn(child{role: "escapee", session: true, clearEnv: *clearEnv,
		args: []string{"-ignore", *ignored}})
	p.announce()
	p.park()
}
