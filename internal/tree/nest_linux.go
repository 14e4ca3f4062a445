// An owner inside the tree: it leads a session, adopts its orphans, and keeps
// a record (a file) of its own. At TERM it removes the record, ends its
// children and exits with 0. Announces children (worker, starter, orphan), then
// inner and leader.

package tree

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	register("nest", nest)
	register("nested-owner", nest)
}

func nest(p *proc) {
	file := p.String("file", "", "the record of the inner owner")
	grace := p.Duration("grace", 200*time.Millisecond, "what the inner owner gives its children")
	p.parse()
	switch p.role {
	case "starter":
		p.spawn(child{role: "orphan", group: true})
		p.announce()
	case "inner":
		p.innerOwner(*file, *grace)
	default:
		if *file == "" {
			p.fail("-file is missing")
		}
		inner := p.spawn(child{prog: "nest", role: "inner", session: true,
			args: []string{"-file", *file, "-grace", grace.String()}})
		go inner.Wait()
		p.announce()
		p.park()
	}
}

func (p *proc) innerOwner(file string, grace time.Duration) {
	p.must(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	term := p.on("TERM")
	p.must(os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o666))
	p.spawn(child{role: "worker"})
	p.must(p.spawn(child{prog: "nest", role: "starter"}).Wait())
	p.announce()
	<-term
	os.Remove(file)
	signalChildren(unix.SIGTERM)
	for end := time.Now().Add(grace); ; time.Sleep(5 * time.Millisecond) {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if err == unix.ECHILD {
				quit(0)
			}
			if pid <= 0 {
				break
			}
		}
		if time.Now().After(end) {
			signalChildren(unix.SIGKILL)
		}
	}
}

// signalChildren signals every child of this process. No pid can change hands
// meanwhile, as only this process collects them.
func signalChildren(sig unix.Signal) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f, err := statFields(pid); err == nil && f[1] == fmt.Sprint(os.Getpid()) {
			unix.Kill(pid, sig)
		}
	}
}
