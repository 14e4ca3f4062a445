package proof

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestIDText(t *testing.T) {
	id := NewID()
	if id.IsZero() || id == NewID() || len(id.String()) != 32 || id.Short() != id.String()[:8] {
		t.Fatalf("new id %s", id)
	}
	got, err := ParseID(id.String())
	if err != nil || got != id {
		t.Fatalf("parse %s: %s, %v", id, got, err)
	}
	b, err := json.Marshal(map[string]ID{"id": id})
	if err != nil || !strings.Contains(string(b), `"`+id.String()+`"`) {
		t.Fatalf("%s, %v", b, err)
	}
	var m map[string]ID
	if err := json.Unmarshal(b, &m); err != nil || m["id"] != id {
		t.Fatalf("%v, %v", m, err)
	}
}

func TestParseIDRefuses(t *testing.T) {
	good := strings.Repeat("0123456789abcdef", 2)
	for _, s := range []string{
		"", "0", good[1:], good + "0", strings.ToUpper(good), strings.Repeat("0", 32),
		good[:31] + "g", good[:31] + " ", "0x" + good[2:], good[:31] + "\x00", good[:30] + "é",
		"../" + good[3:], strings.Repeat("a", 1<<20),
	} {
		if id, err := ParseID(s); err == nil || id != (ID{}) {
			t.Errorf("ParseID(%.40q) = %s, %v", s, id, err)
		} else if len(err.Error()) > 300 {
			t.Errorf("ParseID(%.40q): an error of %d bytes", s, len(err.Error()))
		}
	}
}
