package proof

// Facts about a container that a record names. A container is no process of
// ours: an engine keeps it, and tells of it. It outlives a boot, and where its
// processes are numbered is the engine's business, so boot and PID namespace
// do not count here.
const (
	Engine    Fact = "same_engine"      // the engine at the recorded endpoint has the recorded id
	Container Fact = "container_exists" // the engine knows the recorded container, or in an intent the one with the label
	Label     Fact = "launch_label"     // that container's label names the launch
)

// JudgeContainer decides whose the container is that a record names, running
// or not. Owned needs every fact: each act goes by the container's id, which
// is random, but only these say that it is the launch's.
func JudgeContainer(evidence []Evidence) Finding {
	asked := gathered(evidence)
	find := func(v Verdict, reason string) Finding {
		return Finding{Verdict: v, Reason: reason, Evidence: evidence}
	}
	switch {
	case asked[SameHost] == No:
		return find(Foreign, "recorded on another machine")
	case asked[Released] == Yes:
		return find(Foreign, "released from custody")
	case asked[Engine] == No:
		return find(Foreign, "another engine answers at the recorded endpoint")
	}
	for _, f := range []Fact{SameHost, Engine, Container} {
		if asked[f] == Unknown {
			return find(Unsure, "can't tell "+string(f))
		}
	}
	switch {
	case asked[Container] == No:
		return find(Gone, "the engine knows no such container")
	case asked[Label] == No:
		return find(Foreign, "the container does not carry the launch's label")
	case asked[Label] != Yes:
		return find(Unsure, "can't tell "+string(Label))
	}
	return find(Owned, "proven by engine, container id and label")
}
