// Gives the number of a dead process to a stranger that leads a session. To be
// run as root in a PID namespace of its own, as wrap-pid1 makes. Prints one
// JSON value {"old":{...},"new":{...}} and keeps the stranger, which logs every
// signal it gets. Announces victim (unless given), stranger (once per attempt,
// the last one counts), leader.

package tree

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func init() { register("reuse", reuse) }

type fact struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Inode uint64 `json:"inode"`
}

func factOf(pid int) fact {
	who := identityOf(pid)
	return fact{who.PID, who.Start, who.Inode}
}

func reuse(p *proc) {
	victim := p.Int("victim", 0, "process to end, which somebody collects; 0 is one of its own")
	log := p.String("log", "", "file that gets a line per signal to the stranger")
	tries := p.Int("tries", 200, "how often to try")
	p.parse()
	if *log == "" {
		p.fail("-log is missing")
	}
	var facts struct {
		Old fact `json:"old"`
		New fact `json:"new"`
	}
	if *victim == 0 {
		c := p.spawn(child{role: "victim", session: true})
		facts.Old = factOf(c.Process.Pid)
		c.Process.Kill()
		c.Wait()
	} else {
		facts.Old = factOf(*victim)
		p.endForeign(*victim)
	}
	time.Sleep(30 * time.Millisecond) // so that the start times differ

	for range *tries {
		err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(facts.Old.PID-1)), 0)
		p.must(err)
		cmd, ready := p.stranger(*log)
		if cmd.Process.Pid != facts.Old.PID {
			ready.Close()
			cmd.Process.Kill()
			cmd.Wait()
			continue
		}
		fmt.Fscan(ready, new(string))
		ready.Close()
		facts.New = factOf(cmd.Process.Pid)
		p.must(json.NewEncoder(os.Stdout).Encode(facts))
		p.announce()
		cmd.Wait()
		p.park()
	}
	p.fail("pid %d was not given again in %d tries", facts.Old.PID, *tries)
}

// stranger starts what may get the number: a session leader that logs.
func (p *proc) stranger(log string) (*exec.Cmd, *os.File) {
	return p.launch(child{prog: "siglog", role: "stranger", session: true,
		args: []string{"-log", log, "-n", "0"}})
}

// endForeign kills a process by its pidfd and returns once its number is free.
func (p *proc) endForeign(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	p.must(err)
	defer unix.Close(fd)
	p.must(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
	for {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); os.IsNotExist(err) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
