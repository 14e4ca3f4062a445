package custody_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/custody-project/custody"
)

// Arguments, environment and paths are bytes, not text: what is no UTF-8
// reaches the command as it is, and so does a line of a length that fits in no
// single variable.
func TestBytesReachTheCommand(t *testing.T) {
	o, err := custody.Open(t.Context(), "test", &custody.Options{Dir: stateDir(t)})
	must(t, err)
	defer o.Close()
	dir := filepath.Join(t.TempDir(), "\xfd")
	must(t, os.Mkdir(dir, 0o700))
	sh := filepath.Join(dir, "sh\xfc")
	must(t, os.Symlink("/bin/sh", sh))
	long := strings.Repeat("x", 100_000)
	for name, spec := range map[string]custody.Spec{
		"direct": {}, "kept": {Kept: true}, "pidns": {Kept: true, Require: custody.LevelPIDNS},
	} {
		t.Run(name, func(t *testing.T) {
			c := o.Command(sh, "-c", `printf '%s|%s|%s|%s' "$1" "$V" "$PWD" $((${#2}+${#3}))`, "sh", "\xff", long, long)
			c.Env, c.Dir, c.Spec = append(os.Environ(), "V=\xfe"), dir, spec
			out, err := c.Output()
			if want := "\xff|\xfe|" + dir + "|200000"; string(out) != want || err != nil {
				t.Errorf("%q, %v; want %q", out, err, want)
			}
			c = o.Command(sh + "\xfb")
			c.Spec, c.Env = spec, []string{}
			if err := c.Start(); err == nil || !strings.Contains(err.Error(), sh+"\xfb") {
				t.Errorf("no such file: %q", err)
			}
		})
	}
}

// A record is text: a directory whose name can't be written down is refused
// before it is touched.
func TestOwnDirNoText(t *testing.T) {
	o, err := custody.Open(t.Context(), "test", &custody.Options{Dir: stateDir(t)})
	must(t, err)
	defer o.Close()
	dir := filepath.Join(t.TempDir(), "\xff")
	must(t, os.Mkdir(dir, 0o700))
	c := o.Command("true")
	c.OwnDirs = []string{dir}
	if err := c.Start(); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("start: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}
