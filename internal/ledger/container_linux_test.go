package ledger

// Records of containers that no program of ours wrote.

import (
	"strings"
	"testing"
)

func containerRecord(o *Owner) *Record {
	r := goodRecord(o)
	r.Leader, r.Assets, r.Level = nil, nil, ContainerLevel
	r.Container = &Container{Engine: "E", Endpoint: "unix:///run/s", ID: strings.Repeat("0123456789abcdef", 4), Name: "n", Image: "i",
		Label: LaunchLabel + "=" + r.ID.String()}
	return r
}

func TestHostileContainer(t *testing.T) {
	id := `"id": "` + strings.Repeat("0123456789abcdef", 4) + `"`
	for what, c := range map[string]struct{ old, new, want string }{
		"no engine":          {`"engine": "E"`, `"engine": ""`, "engine"},
		"a remote engine":    {`"endpoint": "unix:///run/s"`, `"endpoint": "tcp://10.0.0.1:2375"`, "endpoint"},
		"a relative socket":  {`"endpoint": "unix:///run/s"`, `"endpoint": "unix://run/s"`, "endpoint"},
		"a start of an id":   {id, `"id": "0123456789ab"`, "64 hexadecimal digits"},
		"a name for an id":   {id, `"id": "model"`, "64 hexadecimal digits"},
		"a path for an id":   {id, `"id": "../../images/` + strings.Repeat("0", 50) + `"`, "64 hexadecimal digits"},
		"running without id": {id + ",", "", "without a leader"},
		"another's label":    {`"label": "custody.launch=$ID"`, `"label": "custody.launch=` + strings.Repeat("a", 32) + `"`, "label"},
		"another label":      {`"label": "custody.launch=$ID"`, `"label": "mine=$ID"`, "label"},
		"no name":            {`"name": "n",` + "\n    \"image\"", `"name": "", "image"`, "name"},
		"another level":      {`"level": "container"`, `"level": "group"`, "level"},
		"processes too":      {`"state": "running"`, `"state": "running", "members": [{"pid": 4242, "uid": 0, "start_ticks": 6}]`, "processes"},
	} {
		t.Run(what, func(t *testing.T) {
			s := testStore(t)
			o := testOwner(t, s)
			good, bad := containerRecord(o), containerRecord(o)
			if err := o.Write(good); err != nil {
				t.Fatal(err)
			}
			path := put(t, o, bad.ID.String()+".json", edit(t, bad, c.old, c.new))
			expectAside(t, o, good, path, c.want)
		})
	}
}

func TestLevelContainerNeedsAContainer(t *testing.T) {
	r := goodRecord(testOwner(t, testStore(t)))
	r.Level = ContainerLevel
	if _, err := EncodeRecord(r); err == nil || !strings.Contains(err.Error(), "without a container") {
		t.Errorf("%v", err)
	}
}
