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

	"github.com/custody-project/custody/internal/crash"
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
	if mounts, err := host.MountsBelow(real); err != nil || len(mounts) > 0 {
		return refuse("a file system is mounted inside, and would be in the way: %v %v", mounts, err)
	}
	if r, err := filepath.EvalSymlinks(stateDir); err == nil && within(real, r) {
		return refuse("lies in the state directory")
	}
	if err := unheld(real); err != nil {
		return refuse("%v", err)
	}
	a := ledger.Asset{Kind: ledger.OwnDir, Path: real, Marker: launch.String()}
	if a.Dev, a.Ino, err = host.FileID(real); err != nil {
		return ledger.Asset{}, fmt.Errorf("own directory: %w", err)
	}
	return a, nil
}

// unheld returns an error if the directory, one above it or one below it is in
// custody: what is freed with one launch must not take another's along.
func unheld(dir string) error {
	for up := dir; ; up = filepath.Dir(up) {
		if held, err := os.ReadFile(filepath.Join(up, MarkerName)); err == nil {
			return fmt.Errorf("%s is in custody of launch %.32s already", up, held)
		}
		if up == filepath.Dir(up) {
			break
		}
	}
	return filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == MarkerName && e.Type().IsRegular() {
			return fmt.Errorf("%s, inside it, is in custody already", filepath.Dir(p))
		}
		return nil
	})
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
	crash.Here("unmarked-dir")
	f, err := os.OpenFile(filepath.Join(a.Path, MarkerName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("mark directory: %w", err)
	}
	crash.Here("empty-marker")
	_, err = f.WriteString(a.Marker)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("mark directory: %w", err)
	}
	crash.Here("marked-dir")
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
	got, err := readMarker(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || got != launch.String() {
		return fmt.Errorf("release directory %s: its marker is not the launch's", a.Path)
	}
	return root.Remove(MarkerName)
}

// GiveBack ends the custody of a user's own directory that nothing of the
// launch is known to have used: its marker goes, written to the end or not. A
// directory that bears another launch's marker, or none, was never taken.
func GiveBack(a ledger.Asset, launch proof.ID) error {
	root, err := os.OpenRoot(a.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("give directory back: %w", err)
	}
	defer root.Close()
	got, err := readMarker(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("give directory %s back: marker: %w", a.Path, err)
	case got == launch.String() || !a.Made && strings.HasPrefix(launch.String(), got):
		if err := root.Remove(MarkerName); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("give directory back: %w", err)
		}
	}
	return nil
}

// Retake marks a released directory again, if it is still the one it was.
func Retake(a ledger.Asset) error {
	dev, ino, err := host.FileID(a.Path)
	if err != nil {
		return err
	}
	if a.Ino == 0 || dev != a.Dev || ino != a.Ino {
		return fmt.Errorf("directory %s: another one has its name now", a.Path)
	}
	f, err := os.OpenFile(filepath.Join(a.Path, MarkerName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("mark directory: %w", err)
	}
	_, err = f.WriteString(a.Marker)
	return errors.Join(err, f.Close())
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
	// From here on it is this one opened directory that is judged and emptied,
	// whatever becomes of its name.
	d, err := root.OpenRoot(base)
	if errors.Is(err, fs.ErrPermission) && sameDir(a, root, base) {
		root.Chmod(base, 0o700) // the tree took its own directory's mode away
		d, err = root.OpenRoot(base)
	}
	if err != nil {
		return refuse("%v", err)
	}
	defer d.Close()
	opened, err := d.Stat(".")
	if err != nil || !os.SameFile(fi, opened) {
		return refuse("it was replaced while it was opened (%v)", err)
	}
	if a.Ino != 0 && !sameDir(a, d, ".") {
		return refuse("another directory has its name now")
	}
	mounts, err := host.MountsBelow(a.Path)
	if err != nil {
		return refuse("can't tell what is mounted inside: %v", err)
	}
	if len(mounts) > 0 {
		return refuse("a file system is mounted inside, at %s", strings.Join(mounts, " and "))
	}
	got, err := readMarker(d)
	unmarked := errors.Is(err, fs.ErrNotExist)
	switch {
	case !a.Made && (unmarked || err == nil && got != launch.String() && strings.HasPrefix(a.Marker, got)):
		// The owner died before it had marked it to the end.
		return neverTaken(a, root, d, base, unmarked, refuse)
	case unmarked && a.Ino != 0:
		// Its emptying was cut short after the marker: then it is empty.
		if err := root.Remove(base); err != nil {
			return refuse("it has no marker %s, and is not empty; delete it by hand if it is the launch's", MarkerName)
		}
		return true, nil
	case unmarked:
		return refuse("it has no marker %s; delete it by hand if it is the launch's", MarkerName)
	case err != nil:
		return refuse("marker: %v", err)
	case got != launch.String():
		return refuse("its marker names %.40q, not this launch", got)
	}
	crash.Here("before-free")
	if err := empty(d); err != nil {
		return false, fmt.Errorf("delete directory %s: %w", a.Path, err)
	}
	crash.Here("unmarked")
	if err := root.Remove(base); err != nil {
		return false, fmt.Errorf("delete directory %s: %w", a.Path, err)
	}
	return true, nil
}

// neverTaken takes back what a dead owner had begun to make: a temporary
// directory holds nothing yet, a user's own stays the user's.
func neverTaken(a ledger.Asset, root, d *os.Root, base string, unmarked bool, refuse func(string, ...any) (bool, error)) (bool, error) {
	if !unmarked {
		if err := d.Remove(MarkerName); err != nil {
			return refuse("its marker is not written to the end: %v", err)
		}
	}
	if a.Kind != ledger.TempDir {
		return false, nil
	}
	if err := root.Remove(base); err != nil {
		return refuse("it has no marker, and it is not empty: %v", err)
	}
	return true, nil
}

// sameDir reports whether name is the very directory that was taken.
func sameDir(a ledger.Asset, root *os.Root, name string) bool {
	fi, err := root.Lstat(name)
	if err != nil || a.Ino == 0 {
		return false
	}
	dev, ino := host.FileIDOf(fi)
	return dev == a.Dev && ino == a.Ino
}

// empty deletes the contents first and the marker last, so that a crash in
// between leaves a directory that is still known as the launch's.
func empty(d *os.Root) error {
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
			d.Chmod(".", 0o700)
			makeWritable(d, n)
			if err := d.RemoveAll(n); err != nil {
				return err
			}
		}
		crash.Here("half-free")
	}
	err = d.Remove(MarkerName)
	if errors.Is(err, fs.ErrPermission) {
		d.Chmod(".", 0o700)
		err = d.Remove(MarkerName)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func makeWritable(d *os.Root, name string) {
	fs.WalkDir(d.FS(), name, func(p string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			d.Chmod(p, 0o700)
		}
		return nil
	})
}

func readMarker(d *os.Root) (string, error) {
	fi, err := d.Lstat(MarkerName)
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() || fi.Size() > 64 {
		return "", fmt.Errorf("is no marker of ours (%v, %d bytes)", fi.Mode().Type(), fi.Size())
	}
	b, err := d.ReadFile(MarkerName)
	return string(b), err
}
