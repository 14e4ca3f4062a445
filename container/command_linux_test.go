package container_test

// The command line, as a controller in another language uses it.

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/custody-project/custody"
)

// commandPath is the built command.
var commandPath = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "custody-command")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "custody")
	b, err := exec.Command("go", "build", "-o", out, "../cmd/custody").CombinedOutput()
	if err != nil {
		err = errors.New(string(b))
	}
	return out, err
})

// command runs custody, and returns what it printed and its status.
func (s *server) command(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path, err := commandPath()
	must(t, err)
	c := exec.Command("timeout", append([]string{"90", path, "--dir", dir}, args...)...)
	c.Env = append(os.Environ(), "DOCKER_HOST="+s.endpoint)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

func TestCommand(t *testing.T) {
	engines(t, func(t *testing.T, s *server) {
		dir := filepath.Join(t.TempDir(), "state")
		ok := func(args ...string) string {
			t.Helper()
			out, errs, code := s.command(t, dir, args...)
			if code != 0 {
				t.Fatalf("%v: status %d: %s%s", args, code, out, errs)
			}
			return out
		}
		start := []string{"start", "--json", "--container", image, "--network", "none", "--name", "web", "--label", "a=b", "--env", "X=Y",
			"--mount", dir + ":/x:ro"}
		var st custody.Status
		out := ok(append(start, "--", "wait")...)
		must(t, json.Unmarshal([]byte(out), &st))
		if st.State != custody.StateRunning || st.Name != "web" || st.Container == nil || st.Container.Name != "web" || st.PID <= 1 {
			t.Errorf("start: %s", out)
		}
		if got := s.state(t, st.Container.ID); got != "running" {
			t.Errorf("the container is %q", got)
		}
		until(t, "it has written", func() bool { return strings.Contains(ok("logs", "web"), "ready\n") })
		for _, show := range [][]string{{"ls"}, {"status", "web"}, {"explain", "web"}, {"sweep"}} {
			if out := ok(show...); !strings.Contains(out, "web") {
				t.Errorf("%v: %s", show, out)
			}
		}
		if out, errs, code := s.command(t, dir, append(start, "--", "wait")...); code != 125 || !strings.Contains(errs, st.ID.Short()) {
			t.Errorf("a second one under the name: %d: %s%s", code, out, errs)
		}
		var next custody.Status
		must(t, json.Unmarshal([]byte(ok(append(start, "--replace", "--", "exit", "7", "1000")...)), &next))
		if s.state(t, st.Container.ID) != "" || next.ID == st.ID {
			t.Errorf("it was not replaced: %+v", next)
		}
		if out, errs, code := s.command(t, dir, "wait", "web"); code != 7 {
			t.Errorf("wait: %d: %s%s", code, out, errs)
		}
		if out := ok("stop", "web", "--json"); !strings.Contains(out, `"container web"`) {
			t.Errorf("stop: %s", out)
		}
		if ids := s.labelled(t, "custody.scope=start"); len(ids) > 0 && s.state(t, next.Container.ID) != "" {
			t.Errorf("containers %v are left", ids)
		}

		id := s.stranger(t, "held", nil)
		if _, errs, code := s.command(t, dir, "start", "--container", image, "--network", "none", "--name", "held"); code != 125 || !strings.Contains(errs, id[:12]) {
			t.Errorf("a stranger's name: %d: %s", code, errs)
		}
		for want, args := range map[string][]string{
			"127": {"start", "--container", "custody-test/bare:1", "--network", "none", "--", "/nowhere"},
			"126": {"start", "--container", "custody-test/bare:1", "--network", "none", "--", "/notes"},
			"125": {"start", "--container", image, "--temp-dir", "T"},
		} {
			if out, errs, code := s.command(t, dir, args...); want != map[int]string{125: "125", 126: "126", 127: "127"}[code] {
				t.Errorf("%v: %d, want %s: %s%s", args, code, want, out, errs)
			}
		}
	})
}
