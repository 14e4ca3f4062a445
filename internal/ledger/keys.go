package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// checkKeys refuses what encoding/json would let pass: a key that stands twice
// (the last one would win), a key in another spelling of case, and text that
// is not UTF-8. Two readers of such a file could believe different things.
func checkKeys(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("not JSON: not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return checkValue(d, false)
}

// checkValue reads one value; free says that its keys are the caller's own.
func checkValue(d *json.Decoder, free bool) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('['):
		for d.More() {
			if err := checkValue(d, false); err != nil {
				return err
			}
		}
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return err
			}
			key, _ := k.(string) // the decoder takes nothing else for a key
			if seen[key] {
				return fmt.Errorf("key %.40q stands twice", key)
			}
			seen[key] = true
			if !free && !isKey(key) {
				return fmt.Errorf("unknown field %.40q", key)
			}
			if err := checkValue(d, key == "labels"); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = d.Token() // the closing bracket
	return err
}

// isKey reports whether s is spelt as our keys are.
func isKey(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return s != ""
}
