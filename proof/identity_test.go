package proof

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestIdentityValid(t *testing.T) {
	good := Identity{PID: 4242, PGID: 4242, SID: 4242, Start: 7, Inode: 8, FileHandle: "0102030405060708", FileHandleType: 254}
	if err := good.Valid(); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*Identity){
		"pid 0":             func(i *Identity) { i.PID = 0 },
		"pid -1":            func(i *Identity) { i.PID = -1 },
		"pid 1":             func(i *Identity) { i.PID = 1 },
		"pid -4242":         func(i *Identity) { i.PID = -4242 },
		"pid 2^22+1":        func(i *Identity) { i.PID = 1<<22 + 1 },
		"pid 2^32":          func(i *Identity) { i.PID = 1 << 32 },
		"pid 2^32+4242":     func(i *Identity) { i.PID = 1<<32 + 4242 },
		"pgid 1":            func(i *Identity) { i.PGID = 1 },
		"pgid -1":           func(i *Identity) { i.PGID = -1 },
		"pgid 2^32":         func(i *Identity) { i.PGID = 1 << 32 },
		"sid -1":            func(i *Identity) { i.SID = -1 },
		"sid 2^32":          func(i *Identity) { i.SID = 1 << 32 },
		"a long handle":     func(i *Identity) { i.FileHandle = strings.Repeat("0", 257) },
		"nothing but a pid": func(i *Identity) { *i = Identity{PID: 4242, PGID: 4242, SID: 4242, UID: 3} },
	} {
		bad := good
		change(&bad)
		if bad.Valid() == nil {
			t.Errorf("%s is taken for valid", what)
		}
	}
	// A program that is PID 1 owns launches, and one it starts on its terminal
	// stays in session 1.
	init := good
	init.PID, init.PGID, init.SID = 1, 1, 1
	if err := init.ValidOwner(); err != nil || init.Valid() == nil {
		t.Errorf("pid 1: as an owner %v, as a launch %v", err, init.Valid())
	}
	if init.PID, init.PGID = 77, 77; init.Valid() != nil {
		t.Errorf("a launch in session 1: %v", init.Valid())
	}
	if !(Identity{}).IsZero() || good.IsZero() || (Identity{}).Valid() == nil {
		t.Error("the zero identity")
	}
}

// What a cut-off or forged file can hold in place of a pid.
func TestIdentityNumbersInJSON(t *testing.T) {
	for _, pid := range []string{"0", "-0", "-1", "1", "+0", "+7", "4294967296", "18446744073709551616", "1e3", "4242.0",
		`"4242"`, "null", "true", "", "0x10", "04242", "[4242]"} {
		var id Identity
		err := json.Unmarshal([]byte(`{"pid":`+pid+`,"start_ticks":5}`), &id)
		if err == nil {
			err = id.Valid()
		}
		if err == nil {
			t.Errorf("pid %s is taken for %d", pid, id.PID)
		}
	}
}
