package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OpenLogs opens the directory of the logs of a scope, whose own directory is
// given by path, and makes it if asked to. One that others can change is
// refused; missing matches fs.ErrNotExist.
func OpenLogs(scopeDir string, create bool) (*os.Root, error) {
	scope, err := os.OpenRoot(scopeDir)
	if err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	defer scope.Close()
	if err := checkDir(scope, "."); err != nil {
		return nil, fmt.Errorf("logs: %s: %w", scopeDir, err)
	}
	if create {
		if err := scope.Mkdir(logsDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make logs: %w", err)
		}
	}
	if err := checkDir(scope, logsDir); err != nil { // an Lstat: no link is followed
		return nil, fmt.Errorf("logs: %s: %w", filepath.Join(scopeDir, logsDir), err)
	}
	logs, err := scope.OpenRoot(logsDir)
	if err != nil {
		return nil, fmt.Errorf("logs: %w", err)
	}
	return logs, nil
}

// OpenPrivate opens a file below root without following links. Anything but a
// regular file of our own, that nobody else can open and that has no second
// name, is refused. With os.O_CREATE it is made, with mode 0600.
func OpenPrivate(root *os.Root, name string, flag int) (*os.File, error) {
	f, err := root.OpenFile(name, flag|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	if err = checkFile(f); err == nil {
		err = notLinked(root, name, f)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}
