//go:build unix

// A server that listens on a port late, answers HTTP with a fixed status, and
// may share the port with others. Announces leader before it listens.

package tree

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func init() { register("server", server) }

func server(p *proc) {
	addr := p.String("addr", "127.0.0.1", "address to listen on")
	port := p.Int("port", 0, "TCP port to listen on")
	delay := p.Duration("delay", 0, "time before it listens")
	status := p.Int("status", 200, "what it answers")
	think := p.Duration("think", 0, "time before it answers")
	share := p.Bool("share", false, "listen with SO_REUSEPORT")
	retry := p.Bool("retry", false, "try again while somebody else listens")
	below := p.Bool("below", false, "a child in a session of its own listens, not the leader")
	ignored := p.String("ignore", "", "signals to be deaf to")
	p.parse()
	p.ignore(*ignored)
	if *below {
		p.spawn(child{prog: "server", role: "server", session: true, args: []string{
			"-addr", *addr, "-port", strconv.Itoa(*port), "-delay", delay.String(),
			"-status", strconv.Itoa(*status), "-ignore", *ignored}})
		p.announce()
		p.park()
	}
	p.announce()
	time.Sleep(*delay)
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if *share {
				p.must(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
			}
		})
	}}
	for {
		l, err := lc.Listen(context.Background(), "tcp", net.JoinHostPort(*addr, strconv.Itoa(*port)))
		if err == nil {
			answer(l, *status, *think)
		}
		if !*retry {
			p.fail("%v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// answer gives every request the same status.
func answer(l net.Listener, status int, think time.Duration) {
	for {
		c, err := l.Accept()
		if err != nil {
			continue
		}
		go func() {
			defer c.Close()
			r := bufio.NewReader(c)
			for line := ""; line != "\r\n"; {
				var err error
				if line, err = r.ReadString('\n'); err != nil {
					return
				}
			}
			time.Sleep(think)
			fmt.Fprintf(c, "HTTP/1.1 %d So\r\nLocation: /elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status)
		}()
	}
}
