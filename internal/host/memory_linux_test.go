package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryPath(t *testing.T) {
	for file, want := range map[string]string{
		"4:memory:/a\n0::/b\n":      "/a memory.oom_control cgroup",
		"2:cpu,memory:/a\n0::/b\n":  "/a memory.oom_control cgroup",
		"1:name=memory:/x\n0::/b\n": "/b memory.events cgroup2",
		"0::/b\n":                   "/b memory.events cgroup2",
		"":                          " memory.events cgroup2",
		"nonsense\n4:memory:/a:b\n": "/a:b memory.oom_control cgroup",
	} {
		path, name, fs, _ := memoryPath([]byte(file))
		if got := path + " " + name + " " + fs; got != want {
			t.Errorf("%q: %s, want %s", file, got, want)
		}
	}
}

func TestOOMKills(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]struct {
		n   uint64
		err bool
	}{
		"low 0\nhigh 3\nmax 12\noom 2\noom_kill 7\noom_group_kill 9\n": {7, false},
		"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n":                {3, false},
		"oom_kill_disable 0\nunder_oom 0\n":                            {0, true},
		"oom_kill x\n":                                                 {0, true},
		"":                                                             {0, true},
	} {
		file := filepath.Join(dir, "counter")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := MemoryCgroup(file).OOMKills()
		if n != want.n || (err != nil) != want.err {
			t.Errorf("%q: %d %v", text, n, err)
		}
	}
	if _, err := MemoryCgroup("").OOMKills(); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}
