package helper

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A mirror that could not begin, or was killed, says nothing of the leader.
func TestMirrorThatEndsByItself(t *testing.T) {
	for _, c := range []struct {
		name, script string
		status       uint32
		want         string // "" for an error
	}{
		{"a runtime without threads, once", `[ -e "$0.ran" ] && exit 0; : >"$0.ran"; exit 2`, 0, "exit status 0"},
		{"a runtime without threads", "exit 2", 0, ""},
		{"killed, once", `[ -e "$0.ran" ] && exit 7; : >"$0.ran"; kill -KILL $$`, 7 << 8, "exit status 7"},
		{"killed", "kill -KILL $$", 0, ""},
		{"as it was to", "kill -QUIT $$", uint32(syscall.SIGQUIT) | 0x80, "signal: quit"},
		{"another signal", "kill -TERM $$", uint32(syscall.SIGKILL), ""},
		{"where it can't be raised", "exit 137", uint32(syscall.SIGKILL), "exit status 137"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "mirror")
			if err := os.WriteFile(path, []byte("#!/bin/sh\nulimit -c 0\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			state, err := Binary{path}.Mirror(c.status)
			if c.want == "" {
				if err == nil {
					t.Errorf("status %d was told as %v", c.status, state)
				}
				return
			}
			if err != nil || !strings.HasPrefix(state.String(), c.want) {
				t.Errorf("status %d: %v, %v; want %s", c.status, state, err, c.want)
			}
		})
	}
}
