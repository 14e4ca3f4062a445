//go:build unix

// A process that executes itself again and again: same pid, same start time,
// another image each time. Announces leader, at the first image.

package tree

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

func init() { register("exec-chain", execChain) }

func execChain(p *proc) {
	n := p.Int("n", 5, "how often")
	every := p.Duration("every", 20*time.Millisecond, "the life of an image")
	first := p.Bool("first", true, "nothing was executed yet")
	p.parse()
	if *first {
		p.announce()
	}
	if *n == 0 {
		p.park()
	}
	time.Sleep(*every)
	argv := Command("exec-chain", "-role", p.role, "-life", p.left().String(),
		"-first=false", "-n", strconv.Itoa(*n-1), "-every", every.String())
	p.fail("exec: %v", syscall.Exec(argv[0], argv, os.Environ()))
}
