package ledger

// Files that no program of ours wrote, or wrote to the end. Each is set aside
// by name with its reason and stays where it is; the good one among them is
// read.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/proof"
)

// edit returns the JSON of a good record with one text replaced.
func edit(t *testing.T, r *Record, old, new string) []byte {
	t.Helper()
	b, err := EncodeRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	old = strings.NewReplacer("$ID", r.ID.String(), "$OWNER", r.Owner.String()).Replace(old)
	out := bytes.Replace(b, []byte(old), []byte(new), 1)
	if bytes.Equal(out, b) {
		t.Fatalf("%q does not stand in %s", old, b)
	}
	return out
}

func TestHostileContents(t *testing.T) {
	pid := func(s string) [2]string { return [2]string{`"pid": 4242`, `"pid": ` + s} }
	for what, c := range map[string]struct {
		edit [2]string
		want string
	}{
		"pid 0":             {pid("0"), "pid 0"},
		"pid -1":            {pid("-1"), "pid -1"},
		"pid 1":             {pid("1"), "pid 1"},
		"pid +0":            {pid("+0"), "not JSON"},
		"pid 4294967296":    {pid("4294967296"), "larger than any pid"},
		"pid 2^64":          {pid("18446744073709551616"), "number"},
		"pid in quotes":     {pid(`"4242"`), "string"},
		"pid null":          {pid("null"), "pid 0"},
		"pid 4242.5":        {pid("4242.5"), "number"},
		"pgid 1":            {[2]string{`"pgid": 4242`, `"pgid": 1`}, "pgid 1"},
		"pgid -1":           {[2]string{`"pgid": 4242`, `"pgid": -1`}, "pgid -1"},
		"newer version":     {[2]string{`"version": 1`, `"version": 2`}, "newer"},
		"version 0":         {[2]string{`"version": 1`, `"version": 0`}, "there was none"},
		"no version":        {[2]string{`"version": 1,`, ``}, "no version"},
		"version twice":     {[2]string{`"version": 1,`, `"version": 1, "version": 1,`}, "twice"},
		"pid twice":         {[2]string{`"pid": 4242,`, `"pid": 4242, "pid": 4243,`}, "twice"},
		"label twice":       {[2]string{`"Any Key": "v"`, `"Any Key": "v", "Any Key": "w"`}, "twice"},
		"pid as PID":        {[2]string{`"pid": 4242,`, `"PID": 4242,`}, "unknown field"},
		"pid and PID":       {[2]string{`"pid": 4242,`, `"pid": 4242, "PID": 4243,`}, "unknown field"},
		"unknown field":     {[2]string{`"version": 1,`, `"version": 1, "surprise": {},`}, "unknown field"},
		"no leader":         {[2]string{`"state": "running"`, `"state": "running", "leader": null, "x": 0`}, "leader"},
		"unknown state":     {[2]string{`"state": "running"`, `"state": "resting"`}, "state"},
		"unknown policy":    {[2]string{`"on_owner_death": "kill"`, `"on_owner_death": "KILL"`}, "on_owner_death"},
		"unknown level":     {[2]string{`"level": "group"`, `"level": "galaxy"`}, "level"},
		"no boot":           {[2]string{`"boot": "b"`, `"boot": ""`}, "no boot"},
		"no namespace":      {[2]string{`"pid_namespace": 7`, `"pid_namespace": 0`}, "no boot"},
		"negative phase":    {[2]string{`"wait_ns": 1000000000`, `"wait_ns": -1`}, "phase"},
		"endless phase":     {[2]string{`"wait_ns": 1000000000`, `"wait_ns": 9000000000000000`}, "phase"},
		"a scope of dots":   {[2]string{`"scope": "test"`, `"scope": "../test"`}, "scope"},
		"another scope":     {[2]string{`"scope": "test"`, `"scope": "test2"`}, "names owner"},
		"a name of dots":    {[2]string{`"name": "n"`, `"name": "../n"`}, "name"},
		"asset kind":        {[2]string{`"kind": "temp-dir"`, `"kind": "house"`}, "kind"},
		"asset at /":        {[2]string{`"path": "/tmp/custody-$ID-D"`, `"path": "/"`}, "path"},
		"asset relative":    {[2]string{`"path": "/tmp`, `"path": "tmp`}, "path"},
		"asset with ..":     {[2]string{`"path": "/tmp`, `"path": "/tmp/../..`}, "path"},
		"asset name of ..":  {[2]string{`"env": "D"`, `"env": "../../etc"`}, "name"},
		"trailing value":    {[2]string{"\n}\n", "\n}\n{}"}, "not JSON"},
		"trailing garbage":  {[2]string{"\n}\n", "\n}\nx"}, "not JSON"},
		"not UTF-8":         {[2]string{`"sleep"`, "\"sl\xffeep\""}, "UTF-8"},
		"half a record":     {[2]string{`"boot": "b"`, "\x00CUT"}, "not JSON"},
		"a foreign owner":   {[2]string{`"owner": "$OWNER"`, `"owner": "` + strings.Repeat("a", 32) + `"`}, "owner"},
		"cgroup elsewhere":  {[2]string{`"state": "running"`, `"state": "running", "cgroup": {"path": "/sys/fs/cgroup", "id": 1}`}, "not named after"},
		"too many phases":   {[2]string{`"phases": [`, `"phases": [` + strings.Repeat(`{"signal": "TERM", "wait_ns": 0},`, 32)}, "phases"},
		"an array":          {[2]string{`{`, `[{`}, "not JSON"},
		"deeper than a hat": {[2]string{`"labels": {`, `"labels": ` + strings.Repeat("[", 20000) + `{`}, "not JSON"},
	} {
		t.Run(what, func(t *testing.T) {
			s := testStore(t)
			o := testOwner(t, s)
			good, bad := goodRecord(o), goodRecord(o)
			if err := o.Write(good); err != nil {
				t.Fatal(err)
			}
			b := edit(t, bad, c.edit[0], c.edit[1])
			if i := bytes.Index(b, []byte("\x00CUT")); i > 0 {
				b = b[:i]
			}
			path := put(t, o, bad.ID.String()+".json", b)
			expectAside(t, o, good, path, c.want)
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

// expectAside expects the good record read and one file set aside.
func expectAside(t *testing.T, o *Owner, good *Record, path, want string) {
	t.Helper()
	recs, odd, err := o.Records()
	if err != nil {
		t.Fatal(err)
	}
	if len(recs) != 1 || recs[0].ID != good.ID {
		t.Errorf("records read: %v", recs)
	}
	if len(odd) != 1 || odd[0].Path != path || !strings.Contains(odd[0].Reason, want) {
		t.Errorf("set aside: %+v, want %s because of %q", odd, path, want)
	}
	for _, x := range odd {
		if len(x.Reason) > 1000 {
			t.Errorf("a reason of %d bytes", len(x.Reason))
		}
	}
}

func TestHostileFiles(t *testing.T) {
	for what, c := range map[string]struct {
		make func(t *testing.T, o *Owner, path string, content []byte)
		root bool
		want string
	}{
		"empty":  {func(t *testing.T, o *Owner, path string, _ []byte) { write(t, path, nil, 0o600) }, false, "empty"},
		"blanks": {func(t *testing.T, o *Owner, path string, _ []byte) { write(t, path, []byte(" \n\t"), 0o600) }, false, "empty"},
		"zeros":  {func(t *testing.T, o *Owner, path string, _ []byte) { write(t, path, make([]byte, 4096), 0o600) }, false, "not JSON"},
		"10 MB": {func(t *testing.T, o *Owner, path string, b []byte) {
			write(t, path, append(b, bytes.Repeat([]byte(" "), 10<<20)...), 0o600)
		}, false, "larger"},
		"mode 666": {func(t *testing.T, o *Owner, path string, b []byte) { write(t, path, b, 0o666) }, false, "0666"},
		"mode 640": {func(t *testing.T, o *Owner, path string, b []byte) { write(t, path, b, 0o640) }, false, "0640"},
		"hard link": {func(t *testing.T, o *Owner, path string, b []byte) {
			write(t, path, b, 0o600)
			must(t, os.Link(path, filepath.Join(t.TempDir(), "second")))
		}, false, "hard links"},
		"symlink out": {func(t *testing.T, o *Owner, path string, b []byte) {
			real := filepath.Join(t.TempDir(), "real")
			write(t, real, b, 0o600)
			must(t, os.Symlink(real, path))
		}, false, ""},
		"symlink inside": {func(t *testing.T, o *Owner, path string, b []byte) {
			write(t, filepath.Join(o.Path(), ".hidden"), b, 0o600)
			must(t, os.Symlink(".hidden", path))
		}, false, "link"},
		"dangling symlink": {func(t *testing.T, o *Owner, path string, b []byte) { must(t, os.Symlink("nowhere", path)) }, false, "link"},
		"fifo":             {func(t *testing.T, o *Owner, path string, _ []byte) { must(t, syscall.Mkfifo(path, 0o600)) }, false, "regular"},
		"directory":        {func(t *testing.T, o *Owner, path string, _ []byte) { must(t, os.Mkdir(path, 0o700)) }, false, "regular"},
		"socket": {func(t *testing.T, o *Owner, path string, _ []byte) {
			must(t, syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0))
		}, false, ""},
		"another user's": {func(t *testing.T, o *Owner, path string, b []byte) {
			write(t, path, b, 0o600)
			must(t, os.Chown(path, 12345, 12345))
		}, true, "uid 12345"},
		"device": {func(t *testing.T, o *Owner, path string, _ []byte) {
			if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|5); err != nil { // /dev/zero
				t.Skipf("no device files here: %v", err)
			}
		}, true, ""},
	} {
		t.Run(what, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			s := testStore(t)
			o := testOwner(t, s)
			good, bad := goodRecord(o), goodRecord(o)
			if err := o.Write(good); err != nil {
				t.Fatal(err)
			}
			b, err := EncodeRecord(bad)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(o.Path(), bad.ID.String()+".json")
			c.make(t, o, path, b)
			done := make(chan bool)
			go func() { expectAside(t, o, good, path, c.want); close(done) }()
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				t.Fatal("reading the records hangs")
			}
			if _, err := os.Lstat(path); err != nil {
				t.Errorf("it was removed: %v", err)
			}
		})
	}
}

func TestHostileNames(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	good := goodRecord(o)
	if err := o.Write(good); err != nil {
		t.Fatal(err)
	}
	b, err := EncodeRecord(good)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		proof.NewID().String() + ".json":                  "its file is named",
		strings.ToUpper(proof.NewID().String()) + ".json": "hexadecimal",
		strings.Repeat("0", 32) + ".json":                 "zero id",
		"0.json":                                          "want 32",
		"notes.txt":                                       "no record",
		good.ID.String():                                  "no record",
		good.ID.String() + ".json.bak":                    "no record",
		"-rf":                                             "no record",
		"new\nline.json":                                  "want 32",
	}
	for name := range want {
		put(t, o, name, b)
	}
	// What a crash in the middle of a write leaves.
	put(t, o, "."+good.ID.String()+".json.00000000deadbeef.tmp", b[:len(b)/2])
	recs, odd, err := o.Records()
	if err != nil || len(recs) != 1 {
		t.Errorf("%v, %v", recs, err)
	}
	for _, x := range odd {
		name := filepath.Base(x.Path)
		if why, ok := want[name]; !ok || !strings.Contains(x.Reason, why) {
			t.Errorf("%q: %s", name, x.Reason)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not set aside: %v", want)
	}
	if err := s.RemoveOwner(o); err == nil {
		t.Error("an owner with files set aside was removed")
	}
}

func TestHostileDirectories(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	dir := filepath.Dir(o.Path())
	must(t, os.Mkdir(filepath.Join(dir, proof.NewID().String()), 0o755))
	must(t, os.Chmod(filepath.Join(dir, lastDir(t, dir, o.ID)), 0o755))
	must(t, os.Symlink(o.Path(), filepath.Join(dir, proof.NewID().String())))
	must(t, os.WriteFile(filepath.Join(dir, proof.NewID().String()), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "stray"), 0o700))
	ids, odd, err := s.Owners("test")
	if err != nil || len(ids) != 1 || ids[0] != o.ID || len(odd) != 4 {
		t.Errorf("owners %v, set aside %+v, %v", ids, odd, err)
	}
	must(t, os.Mkdir(filepath.Join(s.Path(), "open"), 0o755))
	must(t, os.Chmod(filepath.Join(s.Path(), "open"), 0o777))
	must(t, os.Symlink("test", filepath.Join(s.Path(), "link")))
	must(t, os.Mkdir(filepath.Join(s.Path(), "a b"), 0o700))
	scopes, odd, err := s.Scopes()
	if err != nil || len(scopes) != 1 || len(odd) != 3 {
		t.Errorf("scopes %v, set aside %+v, %v", scopes, odd, err)
	}
}

func lastDir(t *testing.T, dir string, not proof.ID) string {
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if e.IsDir() && e.Name() != not.String() && e.Name() != namesDir {
			return e.Name()
		}
	}
	t.Fatal("no directory")
	return ""
}

// The state directory itself: somebody else's, open to others, a link, a file.
func TestHostileState(t *testing.T) {
	base := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"open":   func(p string) error { os.Mkdir(p, 0o700); return os.Chmod(p, 0o777) },
		"group":  func(p string) error { os.Mkdir(p, 0o700); return os.Chmod(p, 0o750) },
		"link":   func(p string) error { os.Mkdir(p+"-real", 0o700); return os.Symlink(p+"-real", p) },
		"file":   func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"absent": func(p string) error { return nil },
		"theirs": func(p string) error {
			os.Mkdir(p, 0o700)
			if os.Geteuid() != 0 {
				return os.Chmod(p, 0o777)
			}
			return os.Chown(p, 12345, 12345)
		},
	} {
		path := filepath.Join(base, name)
		must(t, make(path))
		if s, err := OpenStore(path, Options{}); err == nil {
			s.Close()
			t.Errorf("%s: accepted", name)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error does not name it: %v", name, err)
		}
	}
}

func TestHostileOwnerFile(t *testing.T) {
	for what, content := range map[string]string{
		"empty": "", "garbage": "{]", "pid 0": `{"version":1,"id":"%s","scope":"test","boot":"b","pid_namespace":7,"process":{"pid":0,"start_ticks":5},"opened_at":"2025-01-01T00:00:00Z"}`,
		"another": `{"version":1,"id":"` + strings.Repeat("a", 32) + `","scope":"test","boot":"b","pid_namespace":7,"process":{"pid":77,"start_ticks":5},"opened_at":"2025-01-01T00:00:00Z"}`,
		"newer":   `{"version":9,"id":"%s"}`,
	} {
		s := testStore(t)
		o := testOwner(t, s)
		if strings.Contains(content, "%s") {
			content = fmt.Sprintf(content, o.ID)
		}
		put(t, o, ownerFile, []byte(content))
		if rec, err := o.ReadOwner(); err == nil {
			t.Errorf("%s: %+v", what, rec)
		}
	}
}

func TestGoodRecordRoundTrip(t *testing.T) {
	s := testStore(t)
	o := testOwner(t, s)
	r := goodRecord(o)
	if err := o.Write(r); err != nil {
		t.Fatal(err)
	}
	got, err := o.Read(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(r)
	b, _ := json.Marshal(got)
	if !bytes.Equal(a, b) {
		t.Errorf("wrote %s\nread  %s", a, b)
	}
	fi, err := os.Stat(filepath.Join(o.Path(), r.ID.String()+".json"))
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
}

func write(t *testing.T, path string, b []byte, mode os.FileMode) {
	t.Helper()
	must(t, os.WriteFile(path, b, 0o600))
	must(t, os.Chmod(path, mode))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
