package unit

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/custody-project/custody/proof"
)

// logins is what logind says of a user (org.freedesktop.login1(5)).
type logins struct {
	kill          bool     // KillUserProcesses
	only, exclude []string // KillOnlyUsers, KillExcludeUsers
	name          string   // of the user
	linger        bool     // the user manager stays after the last logout
}

// clears reports whether the session's processes are killed at logout, by the
// rule of logind.conf(5).
func (l logins) clears() bool {
	switch {
	case len(l.exclude) == 0 && l.name == "root", slices.Contains(l.exclude, l.name):
		return false
	case len(l.only) > 0:
		return slices.Contains(l.only, l.name)
	}
	return l.kill
}

// session says what a logout does. That a user manager ends with its user's
// last session is how every desktop has it, and no owner's death: it is told,
// not refused. That sessions are cleared is somebody's order.
func (s Surroundings) session(ctx context.Context, at place, scope bool) Finding {
	f := Finding{Name: Session, Lives: proof.Yes}
	uid := at.uid
	managed := at.managed()
	if scope { // which place counts then
		uid, managed = os.Geteuid(), os.Geteuid() != 0
	}
	switch {
	case scope && !managed, uid < 0:
		f.Detail = "no login session holds us"
		return f
	}
	l, err := s.logins(ctx, uid)
	if err != nil {
		f.Lives, f.Remedy = proof.Unknown, "run it where the system's D-Bus can be reached"
		f.Detail = fmt.Sprintf("what a logout of uid %d ends could not be asked: %v", uid, err)
		return f
	}
	linger := "loginctl enable-linger " + l.name
	switch {
	case managed && l.linger:
		f.Detail = fmt.Sprintf("the user manager of %s stays after the last logout (linger)", l.name)
	case managed:
		f.Lives, f.Remedy = proof.Unknown, linger
		f.Detail = fmt.Sprintf("the user manager of %s ends with the last logout and takes everything along: linger is off", l.name)
	case l.clears():
		f.Lives, f.Remedy = proof.No, ownScope+", with '"+linger+"'"
		f.Detail = fmt.Sprintf("everything in %s is killed at logout (KillUserProcesses of logind.conf)", at.unit)
	default:
		f.Detail = at.unit + " is left alone at logout"
	}
	return f
}
