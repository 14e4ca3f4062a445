package sweep

import (
	"os"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// A keeper ends by itself when its launch is gone, and a stop that has returned
// leaves none behind: it is waited for. One that was stopped by a signal is
// continued after a while; one that still can't end is killed, by its recorded
// identity.
const (
	keeperWake     = time.Second
	keeperPatience = 10 * time.Second
)

func endKeepers(recs []*ledger.Record, results []Result, here host.Place) {
	var left []*ledger.Record
	for i, r := range recs {
		if r.Keeper != nil && Local(r, here) && r.Keeper.PID != os.Getpid() && results[i].Outcome == string(stop.Gone) && results[i].Verdict == proof.Gone {
			left = append(left, r)
		}
	}
	pause, began, woken := time.Millisecond, time.Now(), false
	for ; len(left) > 0; pause = min(2*pause, 50*time.Millisecond) {
		var live []*ledger.Record
		for _, r := range left {
			if host.Lives(*r.Keeper) == proof.Yes {
				live = append(live, r)
			}
		}
		left = live
		if time.Since(began) > keeperPatience {
			break
		}
		if time.Since(began) > keeperWake && !woken {
			woken = true
			for _, r := range left {
				stop.WakeKeeper(contain.Of(r, here, nil))
			}
		}
		if len(left) > 0 {
			time.Sleep(pause)
		}
	}
	for _, r := range left {
		stop.KillKeeper(contain.Of(r, here, nil)) // what it refuses stays, harmless
	}
}

// Local reports whether a record was made in this boot and PID namespace. The
// identities in another one name nobody here, and could be mistaken for
// somebody: a durable handle recurs after a boot.
func Local(r *ledger.Record, here host.Place) bool {
	return r.Boot == here.Boot && r.PIDNS == here.PIDNS
}
