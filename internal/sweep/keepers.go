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

// A keeper ends by itself when its launch is gone. One that was stopped by a
// signal can't, and would stay for good: a sweep that ended its launch ends it
// too, after some patience, by its recorded identity.
const keeperPatience = time.Second

func endKeepers(recs []*ledger.Record, results []Result, here host.Place) {
	var left []*ledger.Record
	for i, r := range recs {
		if r.Keeper != nil && r.Keeper.PID != os.Getpid() && results[i].Outcome == string(stop.Gone) && results[i].Verdict == proof.Gone {
			left = append(left, r)
		}
	}
	pause := time.Millisecond
	for end := time.Now().Add(keeperPatience); len(left) > 0; pause = min(2*pause, 50*time.Millisecond) {
		var live []*ledger.Record
		for _, r := range left {
			if keeperLives(r) {
				live = append(live, r)
			}
		}
		left = live
		if time.Now().After(end) {
			break
		}
		if len(left) > 0 {
			time.Sleep(pause)
		}
	}
	for _, r := range left {
		stop.KillKeeper(contain.Of(r, here, nil)) // what it refuses stays, harmless
	}
}

func keeperLives(r *ledger.Record) bool {
	p, err := host.Recognise(*r.Keeper)
	if err != nil {
		return false
	}
	defer p.Close()
	exited, err := p.Exited()
	return err == nil && !exited
}
