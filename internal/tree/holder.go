//go:build unix

// The leader takes a lock file, a port and a unix socket, and dies; its child
// inherited all three and does not know it. Prints one line of JSON, {"port":
// N}, as -port 0 takes any. Announces holder, leader.

package tree

import (
	"encoding/json"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

func init() { register("holder", holder) }

func holder(p *proc) {
	port := p.Int("port", -1, "TCP port of 127.0.0.1 to listen on; 0 is any, -1 none")
	lock := p.String("lock", "", "file to lock")
	sock := p.String("sock", "", "unix socket to listen on")
	session := p.Bool("setsid", false, "the child leads a session of its own")
	ignored := p.String("ignore", "", "signals the child is deaf to")
	leader := p.String("leader", "die", "die, or stay")
	code := p.Int("code", 0, "exit code of a leader that dies")
	p.parse()

	var held []*os.File
	if *lock != "" {
		f, err := os.OpenFile(*lock, os.O_RDWR|os.O_CREATE, 0o666)
		p.must(err)
		p.must(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		held = append(held, f)
	}
	if *port >= 0 {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: *port})
		p.must(err)
		*port = l.Addr().(*net.TCPAddr).Port
		f, err := l.File()
		p.must(err)
		l.Close()
		held = append(held, f)
	}
	if *sock != "" {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: *sock, Net: "unix"})
		p.must(err)
		l.SetUnlinkOnClose(false) // a crash removes nothing either
		f, err := l.File()
		p.must(err)
		l.Close()
		held = append(held, f)
	}
	p.spawn(child{role: "holder", session: *session, files: held,
		args: []string{"-ignore", *ignored}})
	facts, _ := json.Marshal(map[string]int{"port": *port})
	fmt.Println(string(facts))
	p.announce()
	if *leader == "die" {
		quit(*code)
	}
	p.park()
}
