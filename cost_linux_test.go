package custody_test

// What is left beside a launch that outlives its owner is small, for hours.

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/custody-project/custody"
)

var privateMemory = regexp.MustCompile(`(?m)^Private_(?:Clean|Dirty): *([0-9]+) kB$`)

// private is the memory in kB that only this process has.
func private(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	must(t, err)
	fields := privateMemory.FindAllSubmatch(b, -1)
	if len(fields) != 2 {
		t.Fatalf("%s", b)
	}
	sum := 0
	for _, f := range fields {
		n, err := strconv.Atoi(string(f[1]))
		must(t, err)
		sum += n
	}
	return sum
}

// The keeper of the custody command, whose program carries the client of the
// engines too, comes down to 4 MB.
func TestKeeperIsSmall(t *testing.T) {
	dir := stateDir(t)
	r := cli(t, nil, "start", "--dir", dir, "--name", "n", "--accept-environment", "--json", "--", "sleep", "300")
	var st custody.Status
	if err := json.Unmarshal([]byte(r.out), &st); err != nil || st.KeeperPID == 0 {
		t.Fatalf("%+v %v", r, err)
	}
	t.Cleanup(func() { cli(t, nil, "stop", "--dir", dir, "n") })
	least := 1 << 30
	until(t, "its keeper is small", func() bool {
		least = min(least, private(t, st.KeeperPID))
		return least <= 4<<10
	})
	t.Logf("%d kB", least)
}
