package unit

import (
	"os"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/proof"
)

// cookie is the variable that names the launch we were started in.
const cookie = "CUSTODY_LAUNCH"

// launch says if we are inside a launch ourselves: whoever ends that ends all
// that descends from it, and so what we start too. It does not end with us
// alone, so this is told and not refused.
func (s Surroundings) launch() Finding {
	f := Finding{Name: Launch, Lives: proof.Yes, Detail: "we are in no launch"}
	b, err := s.proc(s.pid(), "limits")
	var brand host.Brand
	if err == nil {
		brand, err = host.ParseBrand(b)
	}
	if err != nil {
		f.Lives, f.Remedy = proof.Unknown, "mount /proc"
		f.Detail = "our own limits can't be read: " + err.Error()
		return f
	}
	if brand == 0 {
		return f
	}
	which := "a launch"
	if id, err := proof.ParseID(os.Getenv(cookie)); err == nil && host.BrandOf(id) == brand {
		which = "launch " + id.Short() // else it is of one further out
	}
	f.Lives, f.Remedy = proof.Unknown, "start it from outside of that launch"
	f.Detail = "we are inside " + which + ": what we start ends with it, when it is stopped and when its command ends"
	return f
}
