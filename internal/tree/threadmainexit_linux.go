// A process whose main thread has ended while others go on: /proc shows a
// zombie with an empty command line, and yet it is alive. Announces itself
// when it is so.

package tree

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

func init() {
	register("thread-main-exit", threadMainExit)
	// Only init runs on the main thread for certain, and may keep it.
	if len(os.Args) > 1 && os.Args[1] == prefix+"thread-main-exit" {
		runtime.LockOSThread()
	}
}

func threadMainExit(p *proc) {
	ignored := p.String("ignore", "", "signals to be deaf to")
	p.parse()
	p.ignore(*ignored)
	me := identify() // while the kernel still tells
	go func() {
		for {
			f, err := statFields(os.Getpid())
			p.must(err)
			if f[0] == "Z" {
				break
			}
			time.Sleep(time.Millisecond)
		}
		p.announceAs(me)
		p.park()
	}()
	// Not raw: the scheduler has to know that this thread may not come back.
	syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}
