//go:build linux

// Work that runs under another service.

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/custody-project/custody/internal/tree"
)

// brokered is a client of a service under custody, and the work that runs for
// it under the service.
type brokered struct {
	*started
	w           *watch
	broker, job *stranger
	log         string
}

func (r *rig) brokered(hooked bool) *brokered {
	r.t.Helper()
	sock, log := r.file("sock"), r.file("broker.log")
	argv := func(name string, args ...string) []string {
		a := tree.Command(name, append([]string{"-life", "60s", "-pids", r.file("service"), "-sock", sock}, args...)...)
		a[0] = r.bin
		return a
	}
	b := &brokered{log: log, broker: r.strangerBy("", argv("broker", "-log", log), nil, "service", 1)}
	sp := spec{Args: r.prog("broker-client", "-sock", sock, "-name", "job-17"), Name: "client"}
	if hooked {
		sp.StopHook = argv("broker-client", "-stop-name", "job-17")
	}
	b.started = r.owner().start(sp)
	b.w = r.watch(1)
	ps := r.watchIn("service", 2)
	b.job = &stranger{t: r.t, handle: ps.role("job")}
	return b
}

// stops is how often the service was asked to end the job.
func (b *brokered) stops() int {
	n := 0
	for _, l := range lines(b.c.r.t, b.log) {
		if strings.HasPrefix(l, "STOP ") {
			n++
		}
	}
	return n
}

// The container client is killed, the container runs on with its GPU.
func TestC42_Broker(t *testing.T) {
	const clientKilled trigger = "client-killed"
	for _, hooked := range []bool{true, false} {
		name := map[bool]string{true: "hook", false: "no-hook"}[hooked]
		t.Run(name, func(t *testing.T) {
			eachTrigger(t, levels, append([]trigger{clientKilled}, triggers...), func(t *testing.T, r *rig, by trigger) {
				b := r.brokered(hooked)
				var st custody.Status
				out, _ := r.custody("status", "client", "--json")
				if err := json.Unmarshal([]byte(out), &st); err != nil || (st.StopHook != nil) != hooked {
					t.Errorf("status: %s, %v", out, err)
				}
				b.broker.untouched("before")
				b.job.untouched("before")
				since := time.Now()
				if by == clientKilled {
					b.w.role("leader").signal(9)
					a := b.ask(request{Do: "gone", Within: 30 * time.Second})
					if a.Err != "" || len(a.Results) != 1 || len(a.Results[0].Signalled) > 0 {
						t.Errorf("%+v", a)
					}
					if hooked && (a.Results[0].StopHook == nil || a.Results[0].StopHook.State != custody.StopHookDone) {
						t.Errorf("the hook: %+v", a.Results[0].StopHook)
					}
				} else {
					since = b.pull(by)
				}
				b.w.gone(since, grace+10*time.Second)
				b.recordEnded("at the end")
				for range 2 {
					r.sweep()
				}
				b.broker.untouched("at the end")
				if !hooked {
					b.job.untouched("at the end")
					if n := b.stops(); n != 0 {
						t.Errorf("the service was asked %d times", n)
					}
					return
				}
				if n := b.stops(); n != 1 {
					t.Errorf("the service was asked %d times to end the job", n)
				}
				if !b.job.ends(10 * time.Second) {
					t.Error("the job goes on")
				}
			})
		})
	}
}
