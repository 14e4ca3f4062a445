// Modelserver is a controller of a server that is slow to load. The server
// outlives it: the next controller takes the server over, with everything that
// is open and warm. PostgreSQL stands for the server: it forks workers, which
// rewrite their titles and answer to signals in their own ways.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/custody-project/custody"
)

const scope, name = "modelserver", "db"

// loading makes the database and becomes the server. What is half made when it
// is ended is never taken for a whole one.
const loading = `cd "$DATA" || exit
if ! [ -d db ]; then
	rm -rf new
	echo "$PGPASSWORD" | initdb -D new -U postgres -A scram-sha-256 --pwfile=/dev/stdin --no-locale -E UTF8 || exit
	mv new db || exit
fi
exec postgres -D db -c unix_socket_directories= "$@"`

type controller struct {
	owner *custody.Owner
	data  string
	port  int
	args  []string
}

func main() {
	custody.ServeHelper() // this program serves as its own keeper
	data := flag.String("data", "", "keep the database in this directory (default: in a temporary one, that goes with the server)")
	port := flag.Int("port", 5432, "where the server listens, on 127.0.0.1")
	bin := flag.String("bin", "/usr/lib/postgresql/15/bin", "where initdb and postgres are")
	dir := flag.String("dir", "", "custody's state directory")
	stop := flag.Bool("stop", false, "end the server and what it owns, whoever controls it")
	flag.Parse()
	os.Setenv("PATH", *bin+":"+os.Getenv("PATH"))
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if *stop {
		res, err := custody.Stop(ctx, name, custody.StopOptions{Dir: *dir, Scope: scope})
		if err != nil {
			log.Fatal(err)
		}
		log.Printf("%s: %d processes signalled, freed %q", res.Outcome, len(res.Signalled), res.Freed)
		return
	}
	owner, err := custody.Open(ctx, scope, &custody.Options{Dir: *dir, OnEvent: func(e custody.Event) { log.Print(e) }})
	if err != nil {
		log.Fatal(err)
	}
	defer owner.Close() // the server goes on
	c := controller{owner, *data, *port, flag.Args()}
	if err := c.run(ctx); err != nil && ctx.Err() == nil {
		log.Print(err)
		owner.Close()
		os.Exit(1)
	}
}

// run keeps a server running until the context ends, or somebody stops it.
func (c *controller) run(ctx context.Context) error {
	l, err := c.find(ctx)
	for err == nil {
		if l == nil {
			if l, err = c.start(); err != nil {
				return err
			}
		}
		if err := c.ready(ctx, l); err != nil {
			return err // starting it again would not help
		}
		log.Printf("ready launch=%s pid=%d at 127.0.0.1:%d", l.ID().Short(), l.PID(), c.port)
		select {
		case <-l.Gone():
		case <-ctx.Done():
			return nil
		}
		if _, err = l.Wait(ctx); err == nil {
			return nil // it was stopped
		}
		log.Printf("server ended: %v", err)
		l, err = nil, nil
	}
	return err
}

// find takes over the server that an earlier controller left, if there is one.
func (c *controller) find(ctx context.Context) (*custody.Launch, error) {
	l, err := c.owner.Adopt(ctx, name)
	if errors.Is(err, custody.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	select {
	case <-l.Gone():
		how, err := l.Wait(ctx)
		if err == nil {
			log.Printf("server had ended: %v", how)
		} else {
			log.Printf("server had ended: %v", err)
		}
		return nil, nil
	default:
		return l, nil
	}
}

func (c *controller) start() (*custody.Launch, error) {
	cmd := c.owner.Command("sh", append([]string{"-c", loading, "sh", "-h", "127.0.0.1", "-p", strconv.Itoa(c.port)}, c.args...)...)
	cmd.Name = name           // at most one, until the last backend is gone
	cmd.Ports = []int{c.port} // nobody else's
	cmd.Kept, cmd.OnOwnerDeath, cmd.Log = true, custody.Survive, &custody.LogSpec{}
	cmd.Phases = []custody.Phase{ // fast shutdown, immediate shutdown
		{Signal: syscall.SIGINT, Wait: 20 * time.Second},
		{Signal: syscall.SIGQUIT, Wait: 5 * time.Second},
		{Signal: syscall.SIGKILL, Wait: 5 * time.Second},
	}
	if c.data == "" {
		cmd.TempDirs = []string{"DATA"}
	} else {
		cmd.Env = append(os.Environ(), "DATA="+c.data)
	}
	err := cmd.Start()
	return cmd.Launch(), err
}

// ready waits until the port is proven to be the server's, and the server takes
// connections there: it listens before it has recovered.
func (c *controller) ready(ctx context.Context, l *custody.Launch) error {
	for ; ; time.Sleep(50 * time.Millisecond) {
		if err := l.WaitReady(ctx, custody.Ready{Port: c.port}); err != nil {
			return err
		}
		if exec.CommandContext(ctx, "pg_isready", "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(c.port)).Run() == nil {
			return nil
		}
	}
}
