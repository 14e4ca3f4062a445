package asset

// What is deleted is exactly what was taken; everything that merely looks like
// it stays, and the reason is told.

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// taken makes a temporary directory with something in it.
func taken(t *testing.T, base string) (ledger.Asset, proof.ID) {
	t.Helper()
	id := proof.NewID()
	a, err := TempDir(base, id, "D")
	must(t, err)
	must(t, Make(&a))
	must(t, os.WriteFile(filepath.Join(Inside(a), "content"), nil, 0o600))
	return a, id
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestTempDirLife(t *testing.T) {
	a, id := taken(t, t.TempDir())
	fi, err := os.Stat(Inside(a))
	if err != nil || fi.Mode().Perm() != 0o700 || !a.Made || a.Ino == 0 {
		t.Fatalf("%v, %v, %+v", fi, err, a)
	}
	if freed, err := Free(a, id); !freed || err != nil || exists(a.Path) {
		t.Errorf("free: %v, %v", freed, err)
	}
	if freed, err := Free(a, id); freed || err != nil {
		t.Errorf("free again: %v, %v", freed, err)
	}
}

// The program may delete its own directory, empty it, or make it anew.
func TestTempDirIsTheProgramsOwn(t *testing.T) {
	a, id := taken(t, t.TempDir())
	must(t, os.RemoveAll(Inside(a)))
	must(t, os.Mkdir(Inside(a), 0o755))
	if freed, err := Free(a, id); !freed || err != nil || exists(a.Path) {
		t.Errorf("%v, %v", freed, err)
	}
	a, id = taken(t, t.TempDir())
	must(t, os.RemoveAll(a.Path))
	if freed, err := Free(a, id); freed || err != nil {
		t.Errorf("a directory that is gone: %v, %v", freed, err)
	}
}

// TestLeftAlone spoils the directory or its record in one way each: nothing
// may be deleted, and the error has to say why.
func TestLeftAlone(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(t *testing.T, a *ledger.Asset, id *proof.ID)
		want  string
	}{
		"points at /":          {func(t *testing.T, a *ledger.Asset, _ *proof.ID) { a.Path = "/" }, "no path"},
		"points at /tmp":       {func(t *testing.T, a *ledger.Asset, _ *proof.ID) { a.Path = "/tmp" }, "no path"},
		"points at ..":         {func(t *testing.T, a *ledger.Asset, _ *proof.ID) { a.Path += "/.." }, "no path"},
		"relative":             {func(t *testing.T, a *ledger.Asset, _ *proof.ID) { a.Path = "etc" }, "no path"},
		"empty path":           {func(t *testing.T, a *ledger.Asset, _ *proof.ID) { a.Path = "" }, "no path"},
		"points at the parent": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) { a.Path = filepath.Dir(a.Path) }, "not named after"},
		"own-dir at the parent": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			a.Kind = ledger.OwnDir
			a.Path = filepath.Dir(a.Path)
		}, "another directory"},
		"own-dir, no inode": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			a.Kind, a.Ino = ledger.OwnDir, 0
			a.Path = filepath.Dir(a.Path)
		}, "no marker"},
		"another launch's":        {func(t *testing.T, a *ledger.Asset, id *proof.ID) { *id = proof.NewID() }, "not the launch's"},
		"another marker recorded": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) { a.Marker = proof.NewID().String() }, "not the launch's"},
		"no marker": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.Remove(filepath.Join(a.Path, MarkerName)))
		}, "no marker"},
		"no marker, not known yet": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.Remove(filepath.Join(a.Path, MarkerName)))
			a.Ino, a.Dev, a.Made = 0, 0, false
		}, "no marker"},
		"another's marker": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.WriteFile(filepath.Join(a.Path, MarkerName), []byte(proof.NewID().String()), 0o600))
		}, "its marker names"},
		"half a marker": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.WriteFile(filepath.Join(a.Path, MarkerName), []byte(a.Marker[:9]), 0o600))
		}, "its marker names"},
		"marker and more": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.WriteFile(filepath.Join(a.Path, MarkerName), []byte(a.Marker+"\n"), 0o600))
		}, "its marker names"},
		"huge marker": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.Truncate(filepath.Join(a.Path, MarkerName), 1<<30))
		}, "marker"},
		"linked marker": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			m := filepath.Join(a.Path, MarkerName)
			must(t, os.Rename(m, m+"x"))
			must(t, os.Symlink(MarkerName+"x", m))
		}, "marker"},
		"marker is a fifo": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			m := filepath.Join(a.Path, MarkerName)
			must(t, os.Remove(m))
			must(t, unix.Mkfifo(m, 0o600))
		}, "marker"},
		"another directory": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.Rename(a.Path, a.Path+"-real"))
			must(t, os.Mkdir(a.Path, 0o700))
			must(t, os.WriteFile(filepath.Join(a.Path, MarkerName), []byte(a.Marker), 0o600))
			must(t, os.WriteFile(filepath.Join(a.Path, "precious"), nil, 0o600))
		}, "another directory"},
		"a link to it": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.Rename(a.Path, a.Path+"-real"))
			must(t, os.Symlink(a.Path+"-real", a.Path))
		}, "no directory any more"},
		"a link to /": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.Rename(a.Path, a.Path+"-real"))
			must(t, os.Symlink("/", a.Path))
		}, "no directory any more"},
		"a file": {func(t *testing.T, a *ledger.Asset, _ *proof.ID) {
			must(t, os.Rename(a.Path, a.Path+"-real"))
			must(t, os.WriteFile(a.Path, nil, 0o600))
		}, "no directory any more"},
	} {
		t.Run(what, func(t *testing.T) {
			base := t.TempDir()
			a, id := taken(t, base)
			c.spoil(t, &a, &id)
			before := list(t, base)
			freed, err := Free(a, id)
			if freed || err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), a.Path) {
				t.Errorf("freed %v, %v; want %q", freed, err, c.want)
			}
			if after := list(t, base); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// list names everything below a directory.
func list(t *testing.T, dir string) string {
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		b.WriteString(path + "\n")
		return err
	}))
	return b.String()
}

// A crash cut the making or the freeing short.
func TestUnfinished(t *testing.T) {
	t.Run("made, not marked", func(t *testing.T) {
		id := proof.NewID()
		a, err := TempDir(t.TempDir(), id, "D")
		must(t, err)
		must(t, os.Mkdir(a.Path, 0o700))
		if freed, err := Free(a, id); !freed || err != nil || exists(a.Path) {
			t.Errorf("%v, %v", freed, err)
		}
	})
	t.Run("half marked", func(t *testing.T) {
		id := proof.NewID()
		a, err := TempDir(t.TempDir(), id, "D")
		must(t, err)
		must(t, os.Mkdir(a.Path, 0o700))
		must(t, os.WriteFile(filepath.Join(a.Path, MarkerName), []byte(a.Marker[:5]), 0o600))
		if freed, err := Free(a, id); !freed || err != nil || exists(a.Path) {
			t.Errorf("%v, %v", freed, err)
		}
	})
	t.Run("emptied, marker gone", func(t *testing.T) {
		a, id := taken(t, t.TempDir())
		must(t, os.RemoveAll(Inside(a)))
		must(t, os.Remove(filepath.Join(a.Path, MarkerName)))
		if freed, err := Free(a, id); !freed || err != nil || exists(a.Path) {
			t.Errorf("%v, %v", freed, err)
		}
	})
	t.Run("own, never marked", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "own")
		must(t, os.MkdirAll(filepath.Join(dir, "content"), 0o700))
		id := proof.NewID()
		a, err := OwnDir(dir, id, "/nowhere")
		must(t, err)
		if freed, err := Free(a, id); freed || err != nil || !exists(filepath.Join(dir, "content")) {
			t.Errorf("%v, %v", freed, err)
		}
		must(t, os.WriteFile(filepath.Join(dir, MarkerName), nil, 0o600))
		if freed, err := Free(a, id); freed || err != nil || !exists(filepath.Join(dir, "content")) || exists(filepath.Join(dir, MarkerName)) {
			t.Errorf("half marked: %v, %v", freed, err)
		}
		must(t, Make(&a))
		if freed, err := Free(a, id); !freed || err != nil || exists(dir) {
			t.Errorf("marked: %v, %v", freed, err)
		}
	})
}

func TestLinksInsideAreNotFollowed(t *testing.T) {
	outside := t.TempDir()
	precious := filepath.Join(outside, "sub", "precious")
	must(t, os.Mkdir(filepath.Dir(precious), 0o700))
	must(t, os.WriteFile(precious, []byte("x"), 0o600))
	a, id := taken(t, t.TempDir())
	in := Inside(a)
	for name, to := range map[string]string{"dir": outside, "file": precious, "up": "..", "root": "/", "loop": "loop", "self": in, "home": "~"} {
		must(t, os.Symlink(to, filepath.Join(in, name)))
	}
	must(t, os.Symlink(outside, filepath.Join(a.Path, "beside")))
	must(t, os.Link(precious, filepath.Join(in, "hard")))
	must(t, os.Mkdir(filepath.Join(in, "locked"), 0o700))
	must(t, os.Symlink(outside, filepath.Join(in, "locked", "out")))
	must(t, os.Chmod(filepath.Join(in, "locked"), 0o000))
	if freed, err := Free(a, id); !freed || err != nil || exists(a.Path) {
		t.Errorf("%v, %v", freed, err)
	}
	if b, err := os.ReadFile(precious); err != nil || string(b) != "x" {
		t.Errorf("outside: %q, %v", b, err)
	}
	if fi, err := os.Stat(filepath.Dir(precious)); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("outside: %v, %v", fi.Mode(), err)
	}
}

// Subdirectories without permission, as build caches and browsers leave them.
// To root they are no hindrance, so the test is worth its while as a user.
func TestUnwritableInside(t *testing.T) {
	a, id := taken(t, t.TempDir())
	deep := filepath.Join(Inside(a), "a", "b", "c")
	must(t, os.MkdirAll(deep, 0o700))
	must(t, os.WriteFile(filepath.Join(deep, "f"), nil, 0o400))
	for dir := deep; dir != filepath.Dir(a.Path); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o500))
	}
	must(t, os.Chmod(filepath.Join(Inside(a), "a"), 0o000))
	if freed, err := Free(a, id); !freed || err != nil || exists(a.Path) {
		t.Errorf("%v, %v", freed, err)
	}
	a, id = taken(t, t.TempDir())
	must(t, os.Chmod(a.Path, 0o000))
	if freed, err := Free(a, id); !freed || err != nil || exists(a.Path) {
		t.Errorf("the directory itself: %v, %v", freed, err)
	}
}

func TestMountInside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	for _, where := range []string{"inside", "over it"} {
		a, id := taken(t, t.TempDir())
		at := a.Path
		if where == "inside" {
			at = filepath.Join(Inside(a), "m n\t")
			must(t, os.Mkdir(at, 0o700))
		}
		must(t, unix.Mount("tmpfs", at, "tmpfs", 0, "size=64k"))
		must(t, os.WriteFile(filepath.Join(at, "precious"), nil, 0o600))
		freed, err := Free(a, id)
		if freed || err == nil || !exists(filepath.Join(at, "precious")) {
			t.Errorf("%s: %v, %v", where, freed, err)
		}
		must(t, unix.Unmount(at, unix.MNT_DETACH))
		if freed, err := Free(a, id); !freed || err != nil {
			t.Errorf("%s, unmounted: %v, %v", where, freed, err)
		}
	}
}

func TestOwnDirRefuses(t *testing.T) {
	base := t.TempDir()
	id := proof.NewID()
	state := filepath.Join(base, "around", "state")
	must(t, os.MkdirAll(state, 0o700))
	must(t, os.Mkdir(filepath.Join(base, "real"), 0o700))
	must(t, os.Symlink("real", filepath.Join(base, "link")))
	must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	held := filepath.Join(base, "held")
	must(t, os.Mkdir(held, 0o700))
	must(t, os.WriteFile(filepath.Join(held, MarkerName), []byte(id.String()), 0o600))
	cwd, err := os.Getwd()
	must(t, err)
	home := filepath.Join(base, "homes", "me")
	must(t, os.MkdirAll(home, 0o700))
	t.Setenv("HOME", home)
	for path, want := range map[string]string{
		"/":                         "",
		"/etc":                      "root of the file system",
		"/proc":                     "",
		os.TempDir():                "",
		".":                         "would be deleted with",
		"..":                        "would be deleted with",
		filepath.Dir(cwd):           "would be deleted with",
		home:                        "home directory",
		filepath.Dir(home):          "home directory",
		state:                       "state directory",
		filepath.Dir(state):         "state directory",
		filepath.Join(base, "link"): "links are not followed",
		filepath.Join(base, "file"): "no directory",
		held:                        "in custody",
		base + "/real/../around":    "state directory",
	} {
		a, err := OwnDir(path, id, state)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", path, a, err, want)
		}
	}
	if _, err := OwnDir(filepath.Join(base, "absent"), id, state); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
	a, err := OwnDir(filepath.Join(base, "real"), id, state)
	must(t, err)
	must(t, Make(&a))
	if _, err := OwnDir(a.Path, proof.NewID(), state); err == nil || !strings.Contains(err.Error(), id.String()) {
		t.Errorf("taken twice: %v", err)
	}
	// What was below it when it was taken may be anything; two launches can't
	// have it at once.
	b := a
	if err := Make(&b); err == nil {
		t.Error("marked twice")
	}
}

func TestTempDirPlan(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", ".x", "a b"} {
		if a, err := TempDir("", proof.NewID(), name); err == nil {
			t.Errorf("%q: %+v", name, a)
		}
	}
	if _, err := TempDir(filepath.Join(t.TempDir(), "absent"), proof.NewID(), "D"); err == nil {
		t.Error("a base that is not there")
	}
	id := proof.NewID()
	a, err := TempDir(t.TempDir(), id, "D")
	must(t, err)
	must(t, os.Symlink("/", a.Path))
	if err := Make(&a); err == nil {
		t.Error("made through a link")
	}
}
