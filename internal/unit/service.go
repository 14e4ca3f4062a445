package unit

import (
	"context"
	"fmt"
	"strings"

	"github.com/custody-project/custody/proof"
)

const (
	ownScope   = "give the launch a scope unit of its own (--scope-unit)"
	askManager = "run it where the service manager's D-Bus can be reached, or " + ownScope
)

// service says what a service manager does to everything in its service when
// that ends or is restarted: KillMode of systemd.kill(5).
//
// A scope has no main process, so that no process's end ends it; whoever stops
// it by name means everything in it.
func (s Surroundings) service(ctx context.Context, at place, scope bool) Finding {
	f := Finding{Name: Service, Lives: proof.Yes}
	name := at.inner()
	switch {
	case scope:
		f.Detail = "the launch gets a scope unit of its own"
		return f
	case name == "":
		f.Detail = "we are in no unit of a service manager"
		return f
	case !strings.HasSuffix(name, ".service"):
		f.Detail = name + " is no service: it does not end with a process of its own"
		return f
	}
	mode, err := s.killMode(ctx, at)
	switch {
	case err != nil:
		f.Lives, f.Remedy = proof.Unknown, askManager
		f.Detail = fmt.Sprintf("we are in %s, and what becomes of its processes when it ends could not be asked: %v", name, err)
	case mode == "process" || mode == "none":
		f.Detail = fmt.Sprintf("%s has KillMode=%s", name, mode)
	default:
		f.Lives = proof.No
		f.Detail = fmt.Sprintf("%s has KillMode=%s: when it ends, or is restarted, everything in it is killed", name, mode)
		f.Remedy = ownScope + ", or set KillMode=process in " + name
	}
	return f
}
