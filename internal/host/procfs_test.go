package host

// A process chooses its own name, its environment and its mount points: the
// text of /proc is hostile.

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// statOf renders a stat line as the kernel does.
func statOf(name string) string {
	return fmt.Sprintf("4242 (%s) S 1 4200 4100 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 17 0 987654 10 20 30\n", name)
}

var hostileNames = []string{
	"sh", "", "a b", ")", "(", ") S 1 1 1", "x) R 77 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0",
	"new\nline", "tab\t", "\x00\xff", "((()))", "x) (y", ") ", strings.Repeat(")", 4096), strings.Repeat("x", 4096),
}

func TestParseStatHostileNames(t *testing.T) {
	for _, name := range hostileNames {
		r, err := ParseStat([]byte(statOf(name)))
		want := Row{PID: 4242, PPID: 1, PGID: 4200, SID: 4100, State: 'S', Threads: 17, Start: 987654, Comm: name}
		if err != nil || r != want {
			t.Errorf("%.40q: %+v, %v", name, r, err)
		}
	}
}

func TestParseStatRefuses(t *testing.T) {
	whole := statOf("sh")
	for _, s := range []string{
		"", "\n", "4242", "4242 (sh", "4242 sh) S 1 2", ") 4242 (sh S 1", "() S 1 2 3",
		strings.Replace(whole, "4242", "0", 1), strings.Replace(whole, "4242", "-1", 1), strings.Replace(whole, "4242", "x", 1),
		strings.Replace(whole, "4242", "99999999999999999999", 1),
		strings.Replace(whole, " S ", " SS ", 1), strings.Replace(whole, " 4200 ", " x ", 1),
		strings.Replace(whole, "987654", "-1", 1), strings.Replace(whole, "987654", "99999999999999999999", 1),
		whole[:strings.Index(whole, "987654")],
	} {
		if r, err := ParseStat([]byte(s)); err == nil {
			t.Errorf("%q: %+v", s, r)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	for _, name := range hostileNames {
		f.Add([]byte(statOf(name)))
	}
	f.Add([]byte("1 () Z"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseStat(b)
		if err == nil && (r.PID <= 0 || r.State == 0) {
			t.Fatalf("%+v of %q", r, b)
		}
		// Whatever stands in the name: a whole line around it is read right.
		got, err := ParseStat([]byte(statOf(string(b))))
		if err != nil || got.Comm != string(b) || got.PPID != 1 || got.Start != 987654 {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

func TestMountinfoEscapes(t *testing.T) {
	lines := `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:26 / /mnt/a\040b\011c\012d\134e rw shared:2 master:1 - tmpfs tmpfs rw
31 22 0:27 /sub\040dir /x rw - cgroup2 cgroup rw
garbage
32 22 0:28 / /y rw
33 22 0:29 / /z rw -
34 22 0:30 / /bad\9esc\04 rw - tmpfs tmpfs rw
35 22 0:31 / /dash rw - fuse.a - b rw
`
	want := []Mount{
		{"/", "/", "ext4"}, {"/", "/mnt/a b\tc\nd\\e", "tmpfs"}, {"/sub dir", "/x", "cgroup2"},
		{"/", `/bad\9esc\04`, "tmpfs"}, {"/", "/dash", "fuse.a"},
	}
	if got := ParseMountinfo([]byte(lines)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestMountAt(t *testing.T) {
	for _, c := range []struct{ root, path, want string }{
		{"/", "/", "/x"}, {"/", "/a/b", "/x/a/b"}, {"/a", "/a", "/x"}, {"/a", "/a/b", "/x/b"},
		{"/a", "/ab", ""}, {"/a", "/b", ""}, {"/", "/../b", ""}, {"/a", "/a/../b", ""}, {"/", "/a..b", "/x/a..b"},
	} {
		got, ok := Mount{Root: c.root, Point: "/x"}.At(c.path)
		if got != c.want || ok != (c.want != "") {
			t.Errorf("%s of %s: %q %v, want %q", c.path, c.root, got, ok, c.want)
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add([]byte("/mnt/a b"))
	f.Add([]byte("\\040\n - x"))
	f.Fuzz(func(t *testing.T, point []byte) {
		ParseMountinfo(point) // must not panic
		point = append([]byte("/"), point...)
		if strings.ContainsAny(string(point), "\x00\r\v\f\u0085\u00a0") || !plain(point) {
			return
		}
		// As the kernel escapes it (mangle_path).
		esc := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`, "#", `\043`).Replace(string(point))
		got := ParseMountinfo([]byte("1 2 3:4 / " + esc + " rw - tmpfs tmpfs rw\n"))
		if len(got) != 1 || got[0].Point != string(point) {
			t.Fatalf("%q: %q", point, got)
		}
	})
}

// plain leaves out the spaces of Unicode, which strings.Fields cuts at.
func plain(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

func TestEnvValue(t *testing.T) {
	env := "A=1\x00CUSTODY_LAUNCHX=no\x00XCUSTODY_LAUNCH=no\x00CUSTODY_LAUNCH=yes\x00CUSTODY_LAUNCH=second\x00=x\x00\x00noequals\x00E="
	for name, want := range map[string]string{"A": "1", "CUSTODY_LAUNCH": "yes", "E": "", "": "x"} {
		if got, ok := EnvValue([]byte(env), name); !ok || got != want {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	for _, name := range []string{"CUSTODY", "B", "noequals", "UNCH"} {
		if got, ok := EnvValue([]byte(env), name); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
	// setproctitle writes over it, and a value may hold the name once more.
	for _, env := range []string{"", "\x00", "xxxxCUSTODY_LAUNCH=a", "A=CUSTODY_LAUNCH=a\x00"} {
		if got, ok := EnvValue([]byte(env), "CUSTODY_LAUNCH"); ok {
			t.Errorf("%q: %q", env, got)
		}
	}
}

func FuzzEnvValue(f *testing.F) {
	f.Add([]byte("A=1\x00B=2"), "B")
	f.Add([]byte{0, 0}, "")
	f.Fuzz(func(t *testing.T, env []byte, name string) {
		v, ok := EnvValue(env, name)
		if ok && !strings.Contains("\x00"+string(env)+"\x00", "\x00"+name+"="+v+"\x00") && !strings.Contains(name, "\x00") {
			t.Fatalf("%q of %q: %q", name, env, v)
		}
	})
}

func TestParseRTTime(t *testing.T) {
	head := "Limit                     Soft Limit           Hard Limit           Units     \n"
	line := func(v string) []byte {
		return []byte(head + "Max realtime timeout      " + v + "            unlimited            us        \n")
	}
	if v, ok, err := ParseRTTime(line("4611686018427387905")); v != 1<<62+1 || !ok || err != nil {
		t.Error(v, ok, err)
	}
	if v, ok, err := ParseRTTime(line("unlimited")); v != 0 || ok || err != nil {
		t.Error(v, ok, err)
	}
	for _, b := range [][]byte{nil, []byte(head), line("x"), line("-1"), line("99999999999999999999999"), []byte("Max realtime timeout\n")} {
		if v, ok, err := ParseRTTime(b); ok || err == nil {
			t.Errorf("%q: %v %v %v", b, v, ok, err)
		}
	}
}

func TestParseChildrenAndCgroup(t *testing.T) {
	if got, err := ParseChildren([]byte("12 13 \n")); err != nil || !reflect.DeepEqual(got, []int{12, 13}) {
		t.Error(got, err)
	}
	for _, s := range []string{"0", "-1", "12 x", "12 99999999999999999999"} {
		if got, err := ParseChildren([]byte(s)); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
	if p, err := ParseCgroup([]byte("12:cpu:/x\n1:name=systemd:/y\n0::/a b/c\n")); err != nil || p != "/a b/c" {
		t.Error(p, err)
	}
	if p, err := ParseCgroup([]byte("12:cpu:/x0::/no\n")); err == nil {
		t.Error(p)
	}
}
