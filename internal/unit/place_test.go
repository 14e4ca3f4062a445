package unit

import "testing"

func TestPlace(t *testing.T) {
	for path, want := range map[string]place{
		"/":                                     {uid: -1},
		"/custody-1/x":                          {uid: -1},
		"/system.slice":                         {uid: -1},
		"/init.scope":                           {unit: "init.scope", uid: -1, path: "/init.scope"},
		"/system.slice/a.service":               {unit: "a.service", uid: -1, path: "/system.slice/a.service"},
		"/system.slice/a.service/sub/b.service": {unit: "a.service", uid: -1, path: "/system.slice/a.service"},
		"/system.slice/system-x.slice/x@1.service":    {unit: "x@1.service", uid: -1, path: "/system.slice/system-x.slice/x@1.service"},
		"/_cgroup.service":                            {unit: "cgroup.service", uid: -1, path: "/_cgroup.service"},
		"/docker/0123/a.service":                      {unit: "a.service", uid: -1, path: "/docker/0123/a.service"},
		"/../../a.service":                            {unit: "a.service", uid: -1, path: "/../../a.service"},
		"/user.slice/user-1000.slice/session-3.scope": {unit: "session-3.scope", uid: 1000, path: "/user.slice/user-1000.slice/session-3.scope"},
		"/user.slice/user-1000.slice/user@1000.service/app.slice/b.service/x": {
			unit: "user@1000.service", user: "b.service", uid: 1000,
			path: "/user.slice/user-1000.slice/user@1000.service/app.slice/b.service"},
		"/user.slice/user-1000.slice/user@1000.service": {unit: "user@1000.service", uid: 1000,
			path: "/user.slice/user-1000.slice/user@1000.service"},
		"/user.slice/user-1000.slice": {uid: -1},
	} {
		if got := parsePlace([]byte("5:cpu:/z.service\n0::" + path + "\n")); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
	for what, c := range map[string]struct{ file, unit string }{
		"version 1 with systemd's own":      {"4:memory:/m.service\n1:name=systemd:/a.service\n", "a.service"},
		"both, the unified one names it":    {"1:name=systemd:/a.service\n0::/b.service\n", "b.service"},
		"both, only systemd's own names it": {"1:name=systemd:/a.service\n0::/\n", "a.service"},
		"nothing":                           {"", ""},
		"nonsense":                          {"0:\n::\nx", ""},
	} {
		if got := parsePlace([]byte(c.file)); got.unit != c.unit {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
