// Browserpool keeps warm headless browsers and hands them out over HTTP. No
// browser, no helper of one and no profile outlives it, however it ends.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/custody-project/custody"
)

type pool struct {
	browser
	owner *custody.Owner
	kept  bool
	mu    sync.Mutex
	warm  []*worker
}

type worker struct {
	ID       custody.ID    `json:"id"`
	Endpoint string        `json:"endpoint"`
	PID      int           `json:"pid"`
	Level    custody.Level `json:"level"`
	Profile  string        `json:"profile"`
	Taken    bool          `json:"taken"`
	exited   <-chan struct{}
}

func main() {
	custody.ServeHelper() // this program serves as its own keeper and watchdog
	name := flag.String("browser", "firefox-esr", "firefox-esr or chromium")
	n := flag.Int("n", 5, "browsers to keep warm")
	addr := flag.String("addr", "127.0.0.1:0", "where to serve")
	dir := flag.String("dir", "", "custody's state directory")
	direct := flag.Bool("direct", false, "start browsers as our own children, each in a cgroup")
	flag.Parse()
	kind, ok := browsers[*name]
	if !ok {
		log.Fatalf("browser %q: want firefox-esr or chromium", *name)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// Open first ends what an earlier life of this service left behind.
	owner, err := custody.Open(ctx, "browserpool", &custody.Options{Dir: *dir, OnEvent: func(e custody.Event) { log.Print(e) }})
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range owner.Swept().Launches {
		log.Printf("swept %s: %s, %d signals, freed %q, left %v", l.ID, l.Outcome, len(l.Signalled), l.Freed, l.Survivors)
	}
	p := &pool{browser: kind, owner: owner, kept: !*direct, warm: []*worker{}}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("serving http://%s", listener.Addr())
	go http.Serve(listener, p)
	for range *n {
		go func() {
			for err := error(nil); !errors.Is(err, custody.ErrClosed); time.Sleep(time.Second / 2) {
				err = p.run()
				log.Printf("browser ended: %v", err)
			}
		}()
	}
	<-ctx.Done()
	if err := owner.Close(); err != nil { // every browser: goodbye, TERM, KILL
		log.Fatal(err)
	}
}

// run is the life of one browser.
func (p *pool) run() error {
	w, command := &worker{}, strings.Fields(p.command)
	cmd := p.owner.Command(command[0], command[1:]...)
	cmd.Kept, cmd.Require = p.kept, custody.LevelLineage                          // some helpers leave the process group
	cmd.TempDirs = []string{"PROFILE", "TMPDIR"}                                  // a killed chromium leaves a socket in TMPDIR
	cmd.Phases, cmd.DeathPhases = plan(3*time.Second), plan(200*time.Millisecond) // TERM takes a browser 50 to 100 ms
	cmd.HookTimeout = 10 * time.Second                                            // a young firefox takes many seconds to close
	cmd.Hook = func(ctx context.Context) error {
		p.mu.Lock()
		at, exited := w.Endpoint, w.exited
		p.mu.Unlock()
		return p.bye(ctx, at, exited)
	}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	l := cmd.Launch()
	mute := time.AfterFunc(time.Minute, func() { l.Kill(context.Background()) })
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), p.says); ok && mute.Stop() {
			p.mu.Lock()
			*w = worker{ID: l.ID(), Endpoint: at, PID: l.PID(), Level: l.Level(), Profile: l.Dirs()[0], exited: l.Exited()}
			p.warm = append(p.warm, w)
			log.Printf("%d warm, the last %+v", len(p.warm), *w)
			p.mu.Unlock()
		}
	}
	io.Copy(io.Discard, stderr) // a line too long ends the scan, not the browser
	return cmd.Wait()
}

func plan(term time.Duration) []custody.Phase {
	return []custody.Phase{{Signal: syscall.SIGTERM, Wait: term}, {Signal: syscall.SIGKILL, Wait: 5 * time.Second}}
}

// ServeHTTP lists the browsers, or hands one out.
func (p *pool) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warm = slices.DeleteFunc(p.warm, func(w *worker) bool {
		select {
		case <-w.exited:
			return true
		default:
			return false
		}
	})
	switch free := slices.IndexFunc(p.warm, func(w *worker) bool { return !w.Taken }); {
	case r.Method == "GET" && r.URL.Path == "/workers":
		json.NewEncoder(w).Encode(p.warm)
	case r.Method == "POST" && r.URL.Path == "/take" && free >= 0:
		p.warm[free].Taken = true
		json.NewEncoder(w).Encode(p.warm[free])
	default:
		http.Error(w, "GET /workers lists, POST /take hands out a free one", http.StatusNotFound)
	}
}
