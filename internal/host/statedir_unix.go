//go:build unix && !darwin

package host

import (
	"errors"
	"os"
	"path/filepath"
)

// UserStateDir returns the directory for a user's state (XDG Base Directory
// Specification).
func UserStateDir() (string, error) {
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return d, nil
	}
	if h := os.Getenv("HOME"); filepath.IsAbs(h) {
		return filepath.Join(h, ".local", "state"), nil
	}
	return "", errors.New("neither XDG_STATE_HOME nor HOME is set")
}
