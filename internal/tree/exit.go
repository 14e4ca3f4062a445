// A leader with a definite end: a code or a signal. With a helper whose own
// code comes later and must not be taken for the leader's.

package tree

import (
	"strconv"
	"time"
)

func init() { register("exit", exit) }

func exit(p *proc) {
	code := p.Int("code", 0, "exit with this code")
	sig := p.String("signal", "", "die of this signal instead")
	after := p.Duration("after", 0, "wait before the end")
	helper := p.Int("helper-code", -1, "leave a helper that exits with this code")
	later := p.Duration("helper-after", 300*time.Millisecond, "how long the helper takes")
	p.parse()
	if *helper >= 0 {
		p.spawn(child{prog: "exit", role: "helper", args: []string{
			"-code", strconv.Itoa(*helper), "-after", (*after + *later).String()}})
	}
	p.announce()
	time.Sleep(*after)
	p.end(*code, *sig)
}

// end is the definite end of a process.
func (p *proc) end(code int, sig string) {
	for _, s := range p.parseSignals(sig) {
		p.dieOf(s)
	}
	quit(code)
}
