package proof

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// ID names one launch or one owner: 128 random bits, written as 32 lower-case
// hexadecimal digits. The zero ID names nothing and is never valid in a record.
type ID [16]byte

// NewID returns a fresh random ID.
func NewID() ID {
	var id ID
	// crypto/rand.Read never returns an error since Go 1.24.
	rand.Read(id[:])
	return id
}

// ParseID reads the 32 digit form. Anything else is an error: an ID is never
// guessed from a prefix here.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) {
		return ID{}, fmt.Errorf("proof: id %.40q: want %d hexadecimal digits, have %d characters", s, 2*len(id), len(s))
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ID{}, fmt.Errorf("proof: id %q: %q is no lower-case hexadecimal digit", s, c)
		}
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("proof: id %q: %w", s, err)
	}
	if id.IsZero() {
		return ID{}, fmt.Errorf("proof: id %q: the zero id names nothing", s)
	}
	return id, nil
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the 32 digit form.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Short returns the first eight digits, for people only.
func (id ID) Short() string { return id.String()[:8] }

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := ParseID(string(b))
	if err != nil {
		return err
	}
	*id = v
	return nil
}
