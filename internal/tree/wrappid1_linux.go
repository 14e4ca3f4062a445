// Runs the rest of the arguments as PID 1 of a new PID namespace with a /proc
// of its own: as root, or else in a user namespace. It passes TERM, HUP, USR1
// and USR2 on and reports the end of PID 1 as a shell would. When it dies, so
// does the namespace. Only the wrapper's own line has the numbers of the outer
// namespace. Announces wrapper; PID 1 announces itself if it is a tree program.

package tree

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() { register("wrap-pid1", wrapPID1) }

func wrapPID1(p *proc) {
	inside := p.Bool("inside", false, "be PID 1")
	p.parse()
	args := p.Args()
	if len(args) == 0 {
		args = Command("sleep", "-role", "pid1", "-life", p.left().String(), "-pids", p.pids)
	}
	if *inside {
		p.must(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		p.must(unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
		path, err := exec.LookPath(args[0])
		p.must(err)
		p.fail("exec %s: %v", path, syscall.Exec(path, args, os.Environ()))
	}

	if p.role == "leader" {
		p.role = "wrapper"
	}
	runtime.LockOSThread() // the death signal is for the end of this thread
	cmd := exec.Command(self(), append([]string{prefix + "wrap-pid1", "-inside",
		"-life", p.left().String(), "--"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  unix.SIGKILL,
	}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	relay := p.on("TERM,HUP,USR1,USR2")
	p.must(cmd.Start())
	time.AfterFunc(p.left()-100*time.Millisecond, func() { cmd.Process.Kill() })
	go func() {
		for s := range relay {
			cmd.Process.Signal(s)
		}
	}()
	p.announce()
	cmd.Wait()
	quit(shellStatus(cmd.ProcessState))
}
