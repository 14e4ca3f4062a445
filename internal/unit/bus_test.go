package unit

import "testing"

func TestSocket(t *testing.T) {
	for address, want := range map[string]string{
		"unix:path=/run/user/1000/bus":               "/run/user/1000/bus",
		"unix:path=/run/a%20b,guid=0123":             "/run/a b",
		"unix:guid=0123,path=/run/x":                 "/run/x",
		"unix:abstract=/tmp/dbus-1":                  "@/tmp/dbus-1",
		"unix:path=":                                 "",
		"unix:path=%zz":                              "",
		"unix:tmpdir=/tmp":                           "",
		"unix:path=/a;tcp:host=elsewhere":            "",
		"tcp:host=elsewhere,port=1":                  "",
		"autolaunch:":                                "",
		"unixexec:path=/usr/bin/ssh,argv1=elsewhere": "",
		"": "",
	} {
		if got, ok := socket(address); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v", address, got, ok)
		}
	}
}
