// Package asset keeps what a launch owns that is no process: directories so
// far. An asset is made after the intent names it and freed after the tree is
// proven gone, by whoever ends the launch.
//
// A directory is deleted only if it is the very one that was taken (device and
// inode) and carries the launch's marker; age, name and emptiness are no
// evidence. Links inside are removed, never followed.
package asset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// MarkerName is the file by which a directory is known as a launch's.
const MarkerName = ".custody"

// TempDir plans a private temporary directory: it names it, and makes nothing.
// The launch gets an inner directory, so that a program may empty or remove
// its own without taking the marker along.
func TempDir(base string, launch proof.ID, name string) (ledger.Asset, error) {
	if err := ledger.CheckName(name); err != nil {
		return ledger.Asset{}, fmt.Errorf("temporary directory: %w", err)
	}
	if base == "" {
		base = os.TempDir()
	}
	base, err := filepath.Abs(base)
	if err == nil {
		base, err = filepath.EvalSymlinks(base)
	}
	if err != nil {
		return ledger.Asset{}, fmt.Errorf("temporary directory: %w", err)
	}
	return ledger.Asset{
		Kind: ledger.TempDir,
		Path: filepath.Join(base, "custody-"+launch.String()+"-"+name),
		Env:  name, Marker: launch.String(),
	}, nil
}

// Inside returns the path that the launch is given.
func Inside(a ledger.Asset) string {
	if a.Kind == ledger.TempDir {
		return filepath.Join(a.Path, a.Env)
	}
	return a.Path
}

// OwnDir plans to take an existing directory of the user's into custody. It is
// deleted with the launch, so places nobody can mean are refused.
func OwnDir(path string, launch proof.ID, stateDir string) (ledger.Asset, error) {
	refuse := func(format string, v ...any) (ledger.Asset, error) {
		return ledger.Asset{}, fmt.Errorf("own directory %s: %s", path, fmt.Sprintf(format, v...))
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return refuse("%v", err)
	}
	fi, err := os.Lstat(abs)
	if err != nil {
		return ledger.Asset{}, fmt.Errorf("own directory: %w", err)
	}
	if !fi.IsDir() {
		return refuse("is no directory (links are not followed)")
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return ledger.Asset{}, fmt.Errorf("own directory: %w", err)
	}
	home, _ := os.UserHomeDir()
	cwd, _ := os.Getwd()
	for what, p := range map[string]string{"the home directory": home, "the working directory": cwd, "the state directory": stateDir, "the temporary directory": os.TempDir()} {
		if r, err := filepath.EvalSymlinks(p); err == nil && p != "" {
			p = r
		}
		if p != "" && within(p, real) {
			return refuse("holds %s; it would be deleted with the launch", what)
		}
	}
	if strings.Count(real, "/") < 2 {
		return refuse("lies at the root of the file system; it would be deleted with the launch")
	}
	if held, err := os.ReadFile(filepath.Join(real, MarkerName)); err == nil {
		return refuse("is in custody of launch %.32s already", held)
	}
	a := ledger.Asset{Kind: ledger.OwnDir, Path: real, Marker: launch.String()}
	if a.Dev, a.Ino, err = host.FileID(real); err != nil {
		return ledger.Asset{}, fmt.Errorf("own directory: %w", err)
	}
	return a, nil
}

// within reports whether p is dir or lies below it.
func within(p, dir string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// Make makes what was planned. The intent must be on disk before.
func Make(a *ledger.Asset) error {
	if a.Kind == ledger.TempDir {
		if err := os.Mkdir(a.Path, 0o700); err != nil {
			return fmt.Errorf("make temporary directory: %w", err)
		}
	}
	f, err := os.OpenFile(filepath.Join(a.Path, MarkerName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("mark directory: %w", err)
	}
	_, err = f.WriteString(a.Marker)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("mark directory: %w", err)
	}
	if a.Kind == ledger.TempDir {
		if err := os.Mkdir(Inside(*a), 0o700); err != nil {
			return fmt.Errorf("make temporary directory: %w", err)
		}
		if a.Dev, a.Ino, err = host.FileID(a.Path); err != nil {
			return fmt.Errorf("make temporary directory: %w", err)
		}
	}
	a.Made = true
	return nil
}

// Release gives the directory to whoever uses it: only the marker goes.
func Release(a ledger.Asset, launch proof.ID) error {
	root, err := os.OpenRoot(a.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release directory: %w", err)
	}
	defer root.Close()
	got, err := readMarker(root, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || got != launch.String() {
		return fmt.Errorf("release directory %s: its marker is not the launch's", a.Path)
	}
	return root.Remove(MarkerName)
}

// Free deletes the directory. It returns nil if it is gone, freed reports
// whether it was there; every refusal is an error that says why.
func Free(a ledger.Asset, launch proof.ID) (freed bool, err error) {
	refuse := func(format string, v ...any) (bool, error) {
		return false, fmt.Errorf("directory %s is left alone: %s", a.Path, fmt.Sprintf(format, v...))
	}
	if a.Marker != launch.String() {
		return refuse("the record's marker is not the launch's")
	}
	if !filepath.IsAbs(a.Path) || filepath.Clean(a.Path) != a.Path || strings.Count(a.Path, "/") < 2 {
		return refuse("no path of a launch's directory")
	}
	parent, base := filepath.Split(a.Path)
	if a.Kind == ledger.TempDir && !strings.HasPrefix(base, "custody-"+launch.String()+"-") {
		return refuse("not named after the launch")
	}
	root, err := os.OpenRoot(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return refuse("%v", err)
	}
	defer root.Close()
	fi, err := root.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return refuse("%v", err)
	}
	if !fi.IsDir() {
		return refuse("is no directory any more (%v)", fi.Mode().Type())
	}
	if a.Ino != 0 {
		dev, ino, err := host.FileID(a.Path)
		if err != nil {
			return refuse("%v", err)
		}
		if dev != a.Dev || ino != a.Ino {
			return refuse("another directory has its name now")
		}
	}
	got, err := readMarker(root, base)
	switch {
	case errors.Is(err, fs.ErrNotExist) && a.Kind == ledger.TempDir && a.Ino == 0:
		// The owner died between making and marking it: then it is empty.
		if err := root.Remove(base); err != nil {
			return refuse("it has no marker, and it is not empty: %v", err)
		}
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return refuse("it has no marker %s; delete it by hand if it is the launch's", MarkerName)
	case err != nil:
		return refuse("marker: %v", err)
	case got != launch.String():
		return refuse("its marker names %.40q, not this launch", got)
	}
	if mounts, err := host.MountsBelow(a.Path); err != nil || len(mounts) > 0 {
		return refuse("a file system is mounted inside: %v %v", mounts, err)
	}
	if err := removeAll(root, base); err != nil {
		return false, fmt.Errorf("delete directory %s: %w", a.Path, err)
	}
	return true, nil
}

// removeAll deletes the contents first and the marker last, so that a crash in
// between leaves a directory that is still known as the launch's.
func removeAll(root *os.Root, base string) error {
	d, err := root.OpenRoot(base)
	if err != nil {
		return err
	}
	defer d.Close()
	f, err := d.Open(".")
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if n == MarkerName {
			continue
		}
		if err := d.RemoveAll(n); err != nil {
			// A directory without write permission for us, the owner.
			makeWritable(d, n)
			if err := d.RemoveAll(n); err != nil {
				return err
			}
		}
	}
	if err := d.Remove(MarkerName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Remove(base)
}

func makeWritable(d *os.Root, name string) {
	fs.WalkDir(d.FS(), name, func(p string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			d.Chmod(p, 0o700)
		}
		return nil
	})
}

func readMarker(root *os.Root, base string) (string, error) {
	fi, err := root.Lstat(filepath.Join(base, MarkerName))
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() || fi.Size() > 64 {
		return "", fmt.Errorf("is no marker of ours (%v, %d bytes)", fi.Mode().Type(), fi.Size())
	}
	b, err := root.ReadFile(filepath.Join(base, MarkerName))
	return string(b), err
}
