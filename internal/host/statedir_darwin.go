package host

import (
	"os"
	"path/filepath"
)

// UserStateDir returns ~/Library/Application Support.
func UserStateDir() (string, error) {
	h, err := os.UserHomeDir()
	return filepath.Join(h, "Library", "Application Support"), err
}
