package proof

// The rule against its table, and against what must hold of any evidence
// whatever: a wrong "owned" is a signal to a stranger.

import (
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type judged struct {
	line     string
	evidence []Evidence
	verdict  Verdict
	reason   string
	weak     bool
}

func readTable(t *testing.T, file, here string) []judged {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []judged
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c := judged{line: line}
		facts, want, ok := strings.Cut(line, "-> ")
		verdict, reason, ok2 := strings.Cut(want, ": ")
		if !ok || !ok2 || c.verdict.UnmarshalText([]byte(verdict)) != nil {
			t.Fatalf("bad line %q", line)
		}
		c.reason, c.weak = strings.CutSuffix(reason, " weak")
		for _, f := range strings.Fields(strings.ReplaceAll(facts, "here", here)) {
			name, answer, ok := strings.Cut(f, "=")
			var a Answer
			if !ok || a.UnmarshalText([]byte(answer)) != nil || !slices.Contains(append(slices.Clone(allFacts), Engine, Container, Label), Fact(name)) {
				t.Fatalf("bad fact %q in %q", f, line)
			}
			c.evidence = append(c.evidence, Evidence{Fact: Fact(name), Source: "table", Holds: a})
		}
		cases = append(cases, c)
	}
	return cases
}

func TestJudgeTable(t *testing.T) {
	seen := map[Verdict]bool{}
	for _, c := range readTable(t, "judge.txt", "same_host=yes same_pid_namespace=yes same_boot=yes") {
		f := Judge(c.evidence)
		seen[f.Verdict] = true
		if f.Verdict != c.verdict || !strings.Contains(f.Reason, c.reason) || f.Weak != c.weak {
			t.Errorf("%s\n\tgot %s: %s (weak %v)", c.line, f.Verdict, f.Reason, f.Weak)
		}
		if f.MaySignal() != (c.verdict == Owned) {
			t.Errorf("%s\n\tmay signal: %v", c.line, f.MaySignal())
		}
		if len(f.Evidence) != len(c.evidence) {
			t.Errorf("%s\n\tthe finding does not carry its evidence", c.line)
		}
	}
	if len(seen) != len(verdicts) {
		t.Errorf("the table reaches the verdicts %v only", seen)
	}
}

var allFacts = []Fact{SameHost, SameBoot, SameNamespace, Live, Handle, Inode, Group, Session, Cgroup,
	Namespace, Parent, Keeper, Brand, Start, Exe, User, Cookie, Intent, Window, Released, Born}

// genEvidence draws any evidence: facts absent, doubled, contradicting. Most
// of it has the place and life right, so that the rest is reached.
func genEvidence() *rapid.Generator[[]Evidence] {
	return rapid.Custom(func(t *rapid.T) []Evidence {
		var ev []Evidence
		plain := rapid.Bool().Draw(t, "here")
		for _, f := range allFacts {
			if plain && slices.Contains([]Fact{SameHost, SameBoot, SameNamespace, Live}, f) {
				ev = append(ev, Evidence{Fact: f, Holds: Yes})
				continue
			}
			for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, string(f)) {
				ev = append(ev, Evidence{Fact: f, Holds: Answer(rapid.IntRange(0, 2).Draw(t, "answer"))})
			}
		}
		return rapid.Permutation(ev).Draw(t, "order")
	})
}

// surely reports whether a fact was asked and every answer to it was a.
func surely(ev []Evidence, f Fact, a Answer) bool {
	found := false
	for _, e := range ev {
		if e.Fact == f {
			if e.Holds != a {
				return false
			}
			found = true
		}
	}
	return found
}

// mayOwn is the rule said once more, the other way round.
func mayOwn(ev []Evidence) bool {
	yes := func(fs ...Fact) bool {
		return !slices.ContainsFunc(fs, func(f Fact) bool { return !surely(ev, f, Yes) })
	}
	if !yes(SameHost, SameBoot, SameNamespace, Live) || yes(Released) {
		return false
	}
	for _, f := range []Fact{Handle, Inode, Group, Session, Cgroup, Namespace, Parent, Keeper, Brand} {
		if yes(f) {
			return true
		}
	}
	asked := func(f Fact) bool {
		return slices.ContainsFunc(ev, func(e Evidence) bool { return e.Fact == f })
	}
	weak := !asked(Handle) && !asked(Inode) && yes(Start, User) && (yes(Exe) || yes(Cookie))
	return weak || yes(Intent, Cookie, User, Window)
}

func TestOwnedNeedsProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := genEvidence().Draw(t, "evidence")
		if f := Judge(ev); (f.Verdict == Owned) != mayOwn(ev) {
			t.Fatalf("%s: %s\n%v", f.Verdict, f.Reason, ev)
		}
	})
}

// A second answer to a fact can only take certainty away, unless it adds a
// fact that was not asked before.
func TestDoublesNeverHelp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := genEvidence().Draw(t, "evidence")
		if len(ev) == 0 {
			return
		}
		again := ev[rapid.IntRange(0, len(ev)-1).Draw(t, "which")].Fact
		more := append(slices.Clone(ev), Evidence{Fact: again, Holds: Answer(rapid.IntRange(0, 2).Draw(t, "again"))})
		if Judge(ev).Verdict != Owned && Judge(more).Verdict == Owned && again != Released {
			t.Fatalf("a second answer about %s made it owned\n%v", again, more)
		}
	})
}

// An answer that becomes unknown never makes a process owned. The only fact
// whose yes takes ownership away is Released, which its record states.
func TestUnknownNeverHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := genEvidence().Draw(t, "evidence")
		if rapid.Bool().Draw(t, "only refuted") {
			// Chance leaves hardly any evidence in which nothing strong holds.
			for i := range ev {
				if slices.Contains(strong, ev[i].Fact) {
					ev[i].Holds = No
				}
			}
		}
		if len(ev) == 0 || Judge(ev).Verdict == Owned {
			return
		}
		less := slices.Clone(ev)
		i := rapid.IntRange(0, len(ev)-1).Draw(t, "which")
		less[i].Holds = Unknown
		if less[i].Fact != Released && Judge(less).Verdict == Owned {
			t.Fatalf("not knowing %s made it owned\n%v", less[i].Fact, less)
		}
	})
}

func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := genEvidence().Draw(t, "evidence")
		other := rapid.Permutation(ev).Draw(t, "order")
		if a, b := Judge(ev), Judge(other); a.Verdict != b.Verdict || a.Reason != b.Reason {
			t.Fatalf("%s: %s\n%s: %s", a.Verdict, a.Reason, b.Verdict, b.Reason)
		}
	})
}

// Every combination of the four facts that come first, with one strong fact:
// small enough to try them all.
func TestPlaceAndLifeExhaustively(t *testing.T) {
	first := []Fact{SameHost, SameBoot, SameNamespace, Live}
	for n := range 3 * 3 * 3 * 3 {
		var ev []Evidence
		for i, k := 0, n; i < len(first); i, k = i+1, k/3 {
			ev = append(ev, Evidence{Fact: first[i], Holds: Answer(k % 3)})
		}
		ev = append(ev, Evidence{Fact: Handle, Holds: Yes})
		if f := Judge(ev); (f.Verdict == Owned) != mayOwn(ev) {
			t.Errorf("%s: %s: %v", f.Verdict, f.Reason, ev)
		}
	}
}

func TestZeroValues(t *testing.T) {
	var f Finding
	var v Verdict
	var a Answer
	if v != Unsure || v.String() != "unsure" || f.MaySignal() || a != Unknown {
		t.Errorf("zero verdict %v, answer %v", v, a)
	}
	if f := Judge(nil); f.Verdict != Unsure || f.MaySignal() {
		t.Errorf("no evidence: %v", f)
	}
	if Verdict(200).String() != "unsure" || Answer(200).String() != "unknown" {
		t.Error("a value out of range has a name of its own")
	}
}

func TestTextForms(t *testing.T) {
	for i, s := range verdicts {
		b, _ := Verdict(i).MarshalText()
		var v Verdict
		if string(b) != s || v.UnmarshalText(b) != nil || v != Verdict(i) {
			t.Errorf("verdict %d: %s, %v", i, b, v)
		}
	}
	for i, s := range answers {
		b, _ := Answer(i).MarshalText()
		var a Answer
		if string(b) != s || a.UnmarshalText(b) != nil || a != Answer(i) {
			t.Errorf("answer %d: %s, %v", i, b, a)
		}
	}
	var v Verdict
	var a Answer
	if v.UnmarshalText([]byte("Owned")) == nil || a.UnmarshalText([]byte("true")) == nil {
		t.Error("a word that is none was taken")
	}
	if Of(true) != Yes || Of(false) != No {
		t.Error("Of")
	}
}
