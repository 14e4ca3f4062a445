package custody

import (
	"fmt"

	"github.com/custody-project/custody/internal/stop"
	"github.com/custody-project/custody/proof"
)

// StopProgress is how far a stop has come: for a person who waits.
type StopProgress struct {
	Launch ID
	Name   string
	Phase  Phase // the one in progress
	Number int   // which it is, from 1
	Of     int   // how many there are
	Left   int   // members seen that have not ended
}

// String returns one line for people.
func (p StopProgress) String() string {
	return fmt.Sprintf("phase %d of %d (%s), %d left", p.Number, p.Of, p.Phase, p.Left)
}

func stopProgress(id proof.ID, name string, p stop.Progress) StopProgress {
	return StopProgress{Launch: id, Name: name, Phase: Phase{p.Signal, p.Wait}, Number: p.Phase, Of: p.Phases, Left: p.Left}
}
