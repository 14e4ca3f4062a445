// A server on its standard input that takes no notice when the input ends, as
// it should. Announces child, leader; both share the input.

package tree

import (
	"io"
	"os"
)

func init() { register("eof-deaf", eofDeaf) }

func eofDeaf(p *proc) {
	alone := p.Bool("alone", false, "no child, the leader alone")
	ignored := p.String("ignore", "", "signals to be deaf to")
	p.parse()
	if p.role == "leader" && !*alone {
		p.spawn(child{prog: "eof-deaf", role: "child", stdio: true,
			args: []string{"-ignore", *ignored}})
	}
	p.ignore(*ignored)
	p.announce()
	io.Copy(io.Discard, os.Stdin)
	p.park()
}
