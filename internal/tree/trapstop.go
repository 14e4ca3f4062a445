//go:build unix

// A shell that would say goodbye at TERM but has stopped itself: unless it is
// continued it never handles TERM. Announces shell, then the leader that waits
// for it and ends it at the deadline: a stopped shell has no clock of its own, so
// whoever kills the leader first owes the shell its end.

package tree

import (
	"os/exec"
	"time"
)

func init() { register("trap-stop", trapStop) }

const trapStopScript = `trap 'echo bye >"$0"; exit 0' TERM; kill -STOP $$; while :; do sleep 0.1; done`

func trapStop(p *proc) {
	file := p.String("file", "", "file that gets the goodbye")
	p.parse()
	if *file == "" {
		p.fail("-file is missing")
	}
	sh := exec.Command("/bin/sh", "-c", trapStopScript, *file)
	p.must(sh.Start())
	time.AfterFunc(p.left()-100*time.Millisecond, func() { sh.Process.Kill() })
	for !hasStopped(sh.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
	shell := *p
	shell.role, shell.ready = "shell", nil
	shell.announceAs(identityOf(sh.Process.Pid))
	p.announce()
	sh.Wait()
	quit(shellStatus(sh.ProcessState))
}
