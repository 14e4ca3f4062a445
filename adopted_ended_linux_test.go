package custody_test

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/custody-project/custody"
)

// Who adopts a launch that ended meanwhile sees that at once, and can start
// another one.
func TestAdoptedWhenItHadEnded(t *testing.T) {
	dir := stateDir(t)
	first := openOwner(t, custody.Options{Dir: dir})
	c := first.Command("sh", "-c", "exit 7")
	c.Name, c.Kept, c.OnOwnerDeath = "n", true, custody.Survive
	must(t, c.Start())
	<-c.Launch().Gone()
	must(t, first.Close())

	next := openOwner(t, custody.Options{Dir: dir})
	l, err := next.Adopt(t.Context(), "n")
	must(t, err)
	select {
	case <-l.Gone():
	default:
		t.Error("adopted, and not known to be gone")
	}
	var ee *exec.ExitError
	if _, err := l.Wait(t.Context()); !errors.As(err, &ee) || ee.ExitCode() != 7 {
		t.Errorf("it ended with %v, want exit status 7", err)
	}
	again := sleeper(next, true)
	again.Name = "n"
	must(t, again.Start())
	_, err = again.Launch().Stop(t.Context())
	must(t, err)
}
