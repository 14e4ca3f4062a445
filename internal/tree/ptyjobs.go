//go:build unix

// A terminal session with background jobs: one deaf to hangup, one that no
// hangup reaches, one stopped because it reads the terminal. To be run as the
// leader of a session with a controlling terminal. Announces deaf, unsent,
// reader, leader.

package tree

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func init() { register("pty-jobs", ptyJobs) }

func ptyJobs(p *proc) {
	p.parse()
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		p.fail("needs a controlling terminal: %v", err)
	}
	if p.role == "reader" {
		p.announce()
		for b := make([]byte, 64); ; {
			if _, err := tty.Read(b); err != nil {
				p.park() // hung up; that is no reason to end
			}
		}
	}
	if sid, _ := unix.Getsid(0); sid != os.Getpid() {
		p.fail("does not lead its session")
	}
	p.spawn(child{role: "deaf", group: true, stdio: true, args: []string{"-ignore", "HUP"}})
	p.spawn(child{role: "unsent", group: true, stdio: true})
	reader := p.spawn(child{prog: "pty-jobs", role: "reader", group: true, stdio: true})
	time.AfterFunc(p.left()-100*time.Millisecond, func() { reader.Process.Kill() })
	for !hasStopped(reader.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
	p.announce()
	p.park()
}
