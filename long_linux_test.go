package custody_test

// What a record keeps for people is cut to a size; what is run is not.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/custody-project/custody"
)

func TestLongCommandLine(t *testing.T) {
	bothKinds(t, func(t *testing.T, kept bool) {
		dir := stateDir(t)
		o := openOwner(t, custody.Options{Dir: dir})
		long := strings.Repeat("ä", 50_000)
		args := []string{"-c", "echo ${#1} $#; read x", "sh"}
		for range 4 {
			args = append(args, long)
		}
		for range 5000 {
			args = append(args, "x")
		}
		c := o.Command("sh", args...)
		c.Kept, c.Env = kept, append(os.Environ(), "LC_ALL=C")
		in, err := c.StdinPipe()
		must(t, err)
		var out strings.Builder
		c.Stdout = &out
		must(t, c.Start())
		files, _ := filepath.Glob(filepath.Join(dir, "test", "*", c.Launch().ID().String()+".json"))
		if len(files) != 1 {
			t.Fatal(files)
		}
		b, err := os.ReadFile(files[0])
		must(t, err)
		var rec struct{ Command []string }
		must(t, json.Unmarshal(b, &rec))
		if len(b) > 64<<10 || len(rec.Command) < 4 || rec.Command[1] != "-c" || !strings.Contains(rec.Command[len(rec.Command)-1], "5003 more") {
			t.Errorf("%d bytes, %.6000q", len(b), rec.Command)
		}
		if strings.Contains(string(b), "\ufffd") || strings.Contains(string(b), `\ufffd`) {
			t.Error("cut inside a letter")
		}
		in.Close()
		c.Wait()
		if got := strings.TrimSpace(out.String()); got != "100000 5004" && got != "50000 5004" {
			t.Errorf("it got %q", got)
		}
	})
}

func TestLargeLabels(t *testing.T) {
	o := openOwner(t, custody.Options{Dir: stateDir(t)})
	c := o.Command("true")
	c.Labels = map[string]string{"k": strings.Repeat("x", 100_000)}
	if err := c.Start(); err == nil || !strings.Contains(err.Error(), "labels of 100001 bytes: at most 32768") {
		t.Errorf("start: %v", err)
	}
}
