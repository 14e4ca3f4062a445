package proof

// The rule about containers against its table, and against what must hold of
// any evidence: a wrong "owned" stops a stranger's container, a wrong "gone"
// forgets ours.

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestJudgeContainerTable(t *testing.T) {
	seen := map[Verdict]bool{}
	for _, c := range readTable(t, "container.txt", "same_host=yes same_engine=yes") {
		f := JudgeContainer(c.evidence)
		seen[f.Verdict] = true
		if f.Verdict != c.verdict || !strings.Contains(f.Reason, c.reason) || len(f.Evidence) != len(c.evidence) {
			t.Errorf("%s\n\tgot %s: %s", c.line, f.Verdict, f.Reason)
		}
	}
	if len(seen) != len(verdicts) {
		t.Errorf("the table reaches the verdicts %v only", seen)
	}
}

func TestContainerNeedsProof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := []Fact{SameHost, SameBoot, Released, Engine, Container, Label, Handle, Brand}
		ev := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Evidence {
			return Evidence{Fact: rapid.SampledFrom(facts).Draw(t, "fact"), Holds: Answer(rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(t, "answer"))}
		}), 0, 12).Draw(t, "evidence")
		all := !slices.ContainsFunc([]Fact{SameHost, Engine, Container, Label}, func(f Fact) bool { return !surely(ev, f, Yes) })
		f := JudgeContainer(ev)
		if f.Verdict == Owned && (!all || surely(ev, Released, Yes)) {
			t.Fatalf("owned without proof: %v", ev)
		}
		if f.Verdict == Gone && !(surely(ev, SameHost, Yes) && surely(ev, Engine, Yes) && surely(ev, Container, No)) {
			t.Fatalf("gone without proof: %v", ev)
		}
	})
}
