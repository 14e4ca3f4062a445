package host

import (
	"fmt"
	"os"
	"strings"
)

// CanNamespace returns nil if we may make PID namespaces: as root, or through
// a user namespace. Whether it really works is known only from the start.
func CanNamespace() error {
	if os.Geteuid() == 0 {
		return nil
	}
	for _, f := range []string{"/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/unprivileged_userns_clone"} {
		b, err := os.ReadFile(f)
		if err == nil && strings.TrimSpace(string(b)) == "0" {
			return fmt.Errorf("user namespaces are switched off (%s is 0): %w", f, ErrUnsupported)
		}
	}
	return nil
}
