//go:build unix

// A shell that would say goodbye at TERM but has stopped itself: unless it is
// continued it never handles TERM. Announces shell, then the leader that waits
// for it.

package tree

import (
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
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
	for !stateOf(sh.Process.Pid, unix.WUNTRACED) {
		time.Sleep(time.Millisecond)
	}
	shell := *p
	shell.role, shell.ready = "shell", nil
	shell.announceAs(identityOf(sh.Process.Pid))
	p.announce()
	sh.Wait()
	os.Exit(shellStatus(sh.ProcessState))
}
