package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/custody-project/custody"
	"github.com/google/go-cmp/cmp"
	"github.com/jedib0t/go-pretty/v6/text"
)

func paper(width int) (*screen, *bytes.Buffer) {
	var b bytes.Buffer
	return &screen{w: &b, width: width, utf8: true}, &b
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if d := cmp.Diff(strings.TrimPrefix(want, "\n"), got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestLaunchesAreAligned(t *testing.T) {
	s, b := paper(0)
	l := exampleLaunch(t)
	m := l
	m.ID, m.Name, m.State, m.Members, m.Suspects, m.Owner.Alive, m.PID = id(t, "c"), "", "gone", nil, nil, false, 0
	m.Command = []string{"sh", "-c", "it's\x1b[31m"}
	now := l.StartedAt.Add(3 * time.Hour)
	s.launches([]custody.LaunchInfo{l, m}, now)
	same(t, b.String(), `
ID        NAME      STATE    LEVEL    PID   MEMBERS  AGE  OWNER  COMMAND
aaaaaaaa  worker-1  running  lineage  4711  1+1?     3h   alive  firefox-esr -headless
cccccccc  -         gone     lineage  -     0        3h   dead   sh -c $'it\'s\x1b[31m'
`)
	// With several scopes each line says which.
	b.Reset()
	m.Scope = "run"
	s.launches([]custody.LaunchInfo{l, m}, now)
	if !strings.HasPrefix(b.String(), "SCOPE     ID ") || !strings.Contains(b.String(), "\nbrowsers  aaaaaaaa ") {
		t.Error(b.String())
	}
}

func TestLinesAreCutToTheTerminal(t *testing.T) {
	for _, width := range []int{80, 100} {
		s, b := paper(width)
		l := exampleLaunch(t)
		l.Command = append(l.Command, strings.Repeat("日本語 ", 40))
		l.Members[0].Command = l.Command
		s.color = true
		s.launches([]custody.LaunchInfo{l}, l.StartedAt)
		s.tree(scopesOf([]custody.LaunchInfo{l}))
		for line := range strings.Lines(b.String()) {
			if w := text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")); w > width {
				t.Errorf("%d columns on a terminal of %d: %q", w, width, line)
			}
		}
		if !strings.Contains(b.String(), "…") {
			t.Errorf("nothing was cut: %s", b)
		}
	}
}

func TestTreeByParent(t *testing.T) {
	s, b := paper(0)
	l := exampleLaunch(t)
	add := func(pid, ppid int, state string, cmd ...string) {
		l.Members = append(l.Members, custody.Member{PID: pid, PPID: ppid, State: state, Comm: "x\ny", Command: cmd})
	}
	add(4712, 4711, "T", "child")
	add(4713, 4712, "Z")
	add(4714, 1, "S", "adopted by init")
	add(4715, 4705, "S", "adopted by keeper")
	dead := exampleLaunch(t)
	dead.ID, dead.Name, dead.State, dead.Verdict, dead.Reason = id(t, "d"), "", "gone", custody.Gone, "no mechanism of the launch shows a live member"
	dead.Members, dead.Suspects, dead.Owner = nil, nil, custody.OwnerInfo{ID: id(t, "e"), PID: 4600}
	dead.OnOwnerDeath = custody.Survive
	s.tree(scopesOf([]custody.LaunchInfo{l, dead}))
	same(t, b.String(), `
browsers
├─ owner 4700 alive
│  └─ launch aaaaaaaa worker-1 running at level lineage
│     ├─ 4705 keeper
│     │  ├─ 4711 firefox-esr -headless (leader)
│     │  │  └─ 4712 child (stopped)
│     │  │     └─ 4713 [x\ny] (main thread ended)
│     │  └─ 4715 'adopted by keeper'
│     ├─ 4714 'adopted by init'
│     └─ 4800 helper unsure carries the launch's cookie, which anyone can copy; no kernel fact ties it to the launch
└─ owner 4600 dead
   └─ launch dddddddd gone at level lineage, survives its owner (no mechanism of the launch shows a live member)
`)
	b.Reset()
	s.utf8 = false
	s.tree(scopesOf([]custody.LaunchInfo{dead}))
	same(t, b.String(), "browsers\n`- owner 4600 dead\n   `- launch dddddddd gone at level lineage, survives its owner (no mechanism of the launch shows a live member)\n")
}

func TestVerdictsInWords(t *testing.T) {
	s, _ := paper(0)
	launch := id(t, "a")
	for _, c := range []struct {
		x    custody.Explanation
		want string
		sig  string
	}{
		{custody.Explanation{PID: 5, Verdict: custody.Owned, Launch: &launch, Role: custody.RoleMember, WouldSignal: true},
			"process 5 is owned: a member of launch aaaaaaaa", "yes"},
		{custody.Explanation{PID: 5, Verdict: custody.Owned, Launch: &launch, Role: custody.RoleOwner, WouldSignal: true},
			"process 5 is owned: a member of launch aaaaaaaa, and itself custody's owner", "yes"},
		{custody.Explanation{PID: 5, Verdict: custody.Unsure, Launch: &launch},
			"process 5 is unsure: something ties it to launch aaaaaaaa, nothing proves it", "no, what is not proven is only reported"},
		{custody.Explanation{PID: 5, Verdict: custody.Foreign, Launch: &launch},
			"process 5 is foreign: it is not of launch aaaaaaaa", "no, only what is proven"},
		{custody.Explanation{PID: 5, Verdict: custody.Foreign, Role: custody.RoleWatchdog},
			"process 5 is foreign: no member of a launch, but custody's watchdog", "no, only what is proven"},
		{custody.Explanation{PID: 5, Verdict: custody.Gone, Launch: &launch, Name: "web"},
			"process 5 is gone: it was of launch aaaaaaaa (web)", "no, there is nothing left"},
		{custody.Explanation{Verdict: custody.Gone, Launch: &launch},
			"no process is gone: it was of launch aaaaaaaa", "no, there is nothing left"},
	} {
		if got := s.verdictLine(c.x); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if got := s.wouldSignal(c.x); !strings.HasPrefix(got, "would be signalled: "+c.sig) {
			t.Errorf("%s: %s", c.want, got)
		}
	}
}

func TestNothingForeignReachesTheTerminal(t *testing.T) {
	const nasty = "\x1b]0;owned\a\r\n\u202e\x9b31m"
	s, b := paper(0)
	l := exampleLaunch(t)
	l.Command, l.Reason = []string{nasty}, nasty
	l.Members[0].Command, l.Members[0].Comm = []string{nasty}, nasty
	l.Suspects[0].Comm, l.Suspects[0].Proof.Reason = nasty, nasty
	s.launches([]custody.LaunchInfo{l}, l.StartedAt)
	s.tree(scopesOf([]custody.LaunchInfo{l}))
	x := exampleExplanation(t)
	x.Command, x.Reason = []string{nasty}, nasty
	s.explanation(x)
	r := exampleStop(t)
	r.Survivors[0].Why, r.Reason, r.Freed = nasty, nasty, []string{nasty}
	s.stopped(r)
	for _, c := range b.String() {
		if c != '\n' && (c < ' ' || c == 0x7f || c == '\u202e' || c == '\ufffd' || c >= 0x80 && c < 0xa0) {
			t.Fatalf("%q in %q", c, b.String())
		}
	}
}

func TestCommandsAsAShellTakesThem(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"ls", "-l", "/tmp/a_b.c"}, "ls -l /tmp/a_b.c"},
		{[]string{"a b", ""}, "'a b' ''"},
		{[]string{"it's"}, `'it'\''s'`},
		{[]string{"two\nlines", "$HOME"}, `$'two\nlines' '$HOME'`},
	} {
		if got := shownCommand(c.args); got != c.want {
			t.Errorf("%q: got %s, want %s", c.args, got, c.want)
		}
	}
}

func TestAges(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{-time.Hour: "0s", 90 * time.Second: "90s", 5 * time.Minute: "5m", 3 * time.Hour: "3h", 75 * time.Hour: "3d"} {
		if got := age(now.Add(-d), now); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// A demo whose claim does not hold says so and fails.
func TestDemoFailsOnAFalseClaim(t *testing.T) {
	var b bytes.Buffer
	old := out
	defer func() { out = old }()
	out = &screen{w: &b}
	d := demo{}
	d.claim(true, "water is wet")
	d.claim(false, "the stranger lives")
	err := d.conclude()
	if err == nil || exitCode(err) != exitIncomplete || err.Error() != "demo: 1 claim did not hold" {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(b.String(), "  x the stranger lives\n") || d.OK {
		t.Error(b.String())
	}
}
