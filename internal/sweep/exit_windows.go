package sweep

import "github.com/custody-project/custody/internal/ledger"

// ExitOf returns the recorded form of an exit code.
func ExitOf(status uint32) *ledger.Exit { return &ledger.Exit{Code: int(status), Status: status} }
