package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/custody-project/custody/proof"
)

// A launch claims its ports as it claims its name, but for all scopes of the
// state directory: there is only one of each.

// portsDir lies beside the scopes, whose names start with no dot.
const portsDir = ".ports"

// MaxPorts is how many ports one launch may reserve.
const MaxPorts = 64

// CheckPorts returns an error unless a launch may reserve these ports.
func CheckPorts(ports []int) error {
	if len(ports) > MaxPorts {
		return fmt.Errorf("%d ports: want at most %d", len(ports), MaxPorts)
	}
	for i, p := range ports {
		if p < 1 || p > 65535 {
			return fmt.Errorf("port %d: want 1 to 65535", p)
		}
		if slices.Contains(ports[:i], p) {
			return fmt.Errorf("port %d: named twice", p)
		}
	}
	return nil
}

// PortClaimedError says that a port is reserved for a launch that is not
// proven gone.
type PortClaimedError struct {
	Port   int
	Holder Claim
	Reason string // set where the claim itself can't be believed
}

func (e *PortClaimedError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("port %d: its claim can't be read (%s); remove the file %s/%d of the state directory by hand once you know nothing runs on the port", e.Port, e.Reason, portsDir, e.Port)
	}
	return fmt.Sprintf("port %d is reserved for launch %s of scope %q, which is not proven gone", e.Port, e.Holder.Launch, e.Holder.Scope)
}

// ClaimPort takes a port for a launch, whose intent must be written before. It
// is free when nobody claims it or when the record of the launch that claims
// it has ended. Held is a *PortClaimedError. Whether it can be bound is another
// question.
func (s *Store) ClaimPort(port int, c Claim) error {
	if err := CheckPorts([]int{port}); err != nil {
		return err
	}
	held, err := s.claim(portsDir, strconv.Itoa(port), c, func(held Claim) bool {
		return CheckScope(held.Scope) != nil || s.recorded(held.Scope, held)
	})
	var odd oddClaim
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errHeld):
		return &PortClaimedError{Port: port, Holder: held}
	case errors.As(err, &odd):
		return &PortClaimedError{Port: port, Reason: odd.Error()}
	}
	return fmt.Errorf("port %d: %w", port, err)
}

// ReleasePorts takes a launch's claims away after its record has ended.
func (o *Owner) ReleasePorts(ports []int, launch proof.ID) error {
	if len(ports) == 0 {
		return nil
	}
	root, err := os.OpenRoot(filepath.Join(filepath.Dir(filepath.Dir(o.path)), portsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	var errs []error
	for _, p := range ports {
		if err := releaseClaim(root, strconv.Itoa(p), launch); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
