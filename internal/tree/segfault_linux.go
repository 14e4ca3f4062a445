// A real fault: a read where nothing is mapped, with the kernel's own answer to
// it. Announces leader.

package tree

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() { register("segfault", segfault) }

func segfault(p *proc) {
	after := p.Duration("after", 0, "wait before the fault")
	p.parse()
	p.must(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}))
	p.announce()
	time.Sleep(*after)
	restoreDefault(syscall.SIGSEGV)
	var nowhere *int
	quit(*nowhere)
}
