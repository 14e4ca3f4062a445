//go:build !linux

package sweep

import (
	"errors"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

func call(h ledger.StopHook, _ []string, _ Fork, _ <-chan struct{}, _ func(proof.Identity)) ledger.StopHook {
	h.State, h.Reason = ledger.HookFailed, errors.ErrUnsupported.Error()
	return h
}
