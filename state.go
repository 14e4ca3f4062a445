package custody

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/custody-project/custody/internal/host"
)

// StateDir returns the state directory: dir if given, else CUSTODY_DIR, else
// the system's place for a user's state, else /run/custody for root.
func StateDir(dir string) (string, error) {
	if dir == "" {
		dir = os.Getenv("CUSTODY_DIR")
	}
	if dir != "" {
		return filepath.Abs(dir)
	}
	if base, err := host.UserStateDir(); err == nil {
		return filepath.Join(base, "custody"), nil
	}
	if os.Geteuid() == 0 {
		return "/run/custody", nil
	}
	return "", errors.New("no state directory: set --dir, CUSTODY_DIR, XDG_STATE_HOME or HOME")
}
