// The leader exits with a code while a grandchild keeps its output open, so
// that whoever reads to the end of the output waits for the wrong process.
// Announces holder, child, leader.

package tree

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func init() { register("pipe-holder", pipeHolder) }

func pipeHolder(p *proc) {
	code := p.Int("code", 0, "exit code of the leader")
	after := p.Duration("after", 0, "how long the leader takes to exit")
	session := p.Bool("setsid", false, "the holder leads a session of its own")
	ignored := p.String("ignore", "", "signals the holder is deaf to")
	chatty := p.Duration("chatty", 0, "how often the holder writes a line; 0 is never")
	p.parse()
	switch p.role {
	case "holder":
		p.ignore(*ignored)
		p.ignore("PIPE") // a reader that goes away does not end it
		p.announce()
		p.chat(*chatty)
	case "child":
		p.spawn(child{prog: "pipe-holder", role: "holder", session: *session, stdio: true,
			args: []string{"-ignore", *ignored, "-chatty", chatty.String()}})
		p.announce()
	default:
		c := p.spawn(child{prog: "pipe-holder", role: "child", stdio: true,
			args: []string{"-ignore", *ignored, "-chatty", chatty.String(),
				"-setsid=" + strconv.FormatBool(*session)}})
		p.must(c.Wait())
		p.announce()
		time.Sleep(*after)
		fmt.Println("leader ends")
		quit(*code)
	}
}

// chat writes to both outputs at an interval, for as long as the process lives.
func (p *proc) chat(every time.Duration) {
	if every <= 0 {
		p.park()
	}
	for i := 0; ; i++ {
		fmt.Fprintf(os.Stdout, "%s still here %d\n", p.role, i)
		fmt.Fprintf(os.Stderr, "%s still here %d\n", p.role, i)
		time.Sleep(every)
	}
}
