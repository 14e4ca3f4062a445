package custody_test

// A start that fails takes back what it made, and nothing else; one that meets
// a full table of descriptors or a closing owner ends, and leaves nothing.

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/custody-project/custody"
)

func TestFailedStartKeepsTheUsersDirectory(t *testing.T) {
	kinds := map[string]func(c *custody.Cmd){
		"direct": func(*custody.Cmd) {},
		"kept":   func(c *custody.Cmd) { c.Kept = true },
	}
	for _, l := range custody.Doctor(custody.Options{Dir: stateDir(t)}).Levels {
		if l.Level == custody.LevelPIDNS && l.Available == custody.Yes {
			kinds["pidns"] = func(c *custody.Cmd) { c.Kept, c.Require = true, custody.LevelPIDNS }
		}
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			dir, own, other := stateDir(t), t.TempDir(), t.TempDir()
			must(t, os.WriteFile(filepath.Join(own, "content"), nil, 0o600))
			o := openOwner(t, custody.Options{Dir: dir})
			for what, c := range map[string]*custody.Cmd{
				"no program":   {Path: "/etc/passwd", Args: []string{"passwd"}},
				"marked twice": {Path: "/bin/true", Args: []string{"true"}, Spec: custody.Spec{OwnDirs: []string{other, other}}},
			} {
				f := o.Command("true")
				f.Path, f.Args, f.OwnDirs = c.Path, c.Args, append([]string{own}, c.OwnDirs...)
				kind(f)
				if err := f.Start(); err == nil {
					t.Fatalf("%s: started", what)
				}
				for _, p := range []string{filepath.Join(own, "content"), other} {
					if _, err := os.Stat(p); err != nil {
						t.Errorf("%s: the user's directory: %v", what, err)
					}
				}
				for _, p := range []string{own, other} {
					if _, err := os.Stat(filepath.Join(p, ".custody")); err == nil {
						t.Errorf("%s: %s is marked still", what, p)
					}
				}
				if left, _ := filepath.Glob(filepath.Join(dir, "test", "*", "????????????????*.json")); len(left) > 0 {
					t.Errorf("%s: left: %v", what, left)
				}
			}
		})
	}
}
