package sweep

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/logfile"
	"github.com/custody-project/custody/proof"
)

// A launch that has ended is kept for who may ask how. A server that crashes
// and is started again every second would leave a record and a log at each
// turn: 86,400 a day, read by every start. So of a name only the last are kept.

// KeptEnded is how long the record of a launch that has ended is kept.
const KeptEnded = 24 * time.Hour

// KeptOfName is how many ended launches of one name are kept, and keptNameless
// how many that have none.
const (
	KeptOfName   = 20
	keptNameless = 500
)

// remains is an ended launch of a dead owner.
type remains struct {
	scope, name   string
	owner, launch proof.ID
	at            time.Time
	result        int // its place among the results
}

// surplus are the remains that are more than is kept, the oldest of each name.
func surplus(all []remains) []remains {
	slices.SortFunc(all, func(a, b remains) int { return b.at.Compare(a.at) })
	type key struct{ scope, name string }
	seen := map[key]int{}
	return slices.DeleteFunc(all, func(r remains) bool {
		k := key{r.scope, r.name}
		seen[k]++
		return seen[k] <= KeptOfName || r.name == "" && seen[k] <= keptNameless
	})
}

// keepLast forgets what one owner has more of a name than is kept: it may live
// for months, and no sweep looks at what it has.
func keepLast(d *ledger.Owner, name string) {
	if name == "" {
		return
	}
	recs, _, err := d.Records()
	if err != nil {
		return
	}
	var all []remains
	for _, r := range recs {
		if r.State == ledger.Ended && r.Name == name {
			all = append(all, remains{name: name, launch: r.ID, at: r.EndedAt})
		}
	}
	for _, r := range surplus(all) {
		if d.Remove(r.launch) == nil {
			logfile.Remove(filepath.Dir(d.Path()), r.launch) // or the next sweep
		}
	}
}

// forgetSurplus ends the records of what is more than is kept.
func forgetSurplus(store *ledger.Store, all []remains, rep *Report) {
	for _, r := range surplus(all) {
		d, err := store.OpenOwner(r.scope, r.owner)
		if err != nil {
			continue // another sweep was here
		}
		if locked, err := d.TryLock(); locked && err == nil && d.Remove(r.launch) == nil {
			rep.Results[r.result].Reason = "it has ended, as later ones of its name have"
			store.RemoveOwner(d)
		}
		d.Close()
	}
}
