// Package proof holds the rule by which custody decides whose a process is.
//
// It is pure: standard library only, no system call, no clock. Everything that
// was asked of the kernel arrives as Evidence, and Judge turns it into a
// Finding. The rule fits one screen so that it can be checked by reading.
package proof

// Fact names one thing that can be asked about a process and a record.
type Fact string

// Where the record was made. A record of another place is not ours to act on.
const (
	SameHost      Fact = "same_host"          // machine id equals the recorded one
	SameBoot      Fact = "same_boot"          // boot id equals the recorded one
	SameNamespace Fact = "same_pid_namespace" // PID namespace equals the recorded one
)

// Whether the process has a live thread, asked of its handle and never of its
// state letter.
const Live Fact = "live"

// Facts that prove on their own, each held by the kernel and impossible to
// take on by accident.
const (
	Handle    Fact = "handle"          // the durable handle of a recorded process opens this very process
	Inode     Fact = "pidfs_inode"     // pidfs inode equals that of a recorded process (Linux 6.9 to 6.13)
	Group     Fact = "process_group"   // in the recorded group, whose number the recorded leader's handle pins
	Session   Fact = "session"         // in the recorded session, whose number the recorded leader's handle pins
	Cgroup    Fact = "cgroup"          // inside the launch's own cgroup (64-bit id, never reused within a boot)
	Namespace Fact = "pid_namespace"   // inside the launch's own PID namespace
	Parent    Fact = "child_of_member" // its parent is a process proven to be of the launch
	Keeper    Fact = "child_of_keeper" // its parent is the launch's keeper, which adopts nothing else
	Brand     Fact = "brand"           // carries the launch's 62 random bits in RLIMIT_RTTIME, inherited by descent only
)

// Facts that prove only together, where the stronger ones can't be had.
const (
	Start  Fact = "start_time" // start ticks since boot equal the recorded ones
	Exe    Fact = "executable" // device and inode of the executable equal the recorded ones
	User   Fact = "user"       // real uid equals the recorded one
	Cookie Fact = "cookie"     // CUSTODY_LAUNCH in its environment names the launch
	Intent Fact = "intent"     // the record was written before the fork and never completed
	Window Fact = "window"     // started after the intent was written, and before its owner died
)

// What is known about the record itself.
const (
	Released Fact = "released"           // the launch was handed out of custody for good
	Born     Fact = "branded_from_birth" // the keeper bore the brand before it started the leader
)

// Evidence is one fact, where the answer came from, and whether it holds.
type Evidence struct {
	Fact   Fact   `json:"fact"`
	Source string `json:"source"`
	Holds  Answer `json:"holds"`
}

// Finding is a verdict with everything it rests on.
type Finding struct {
	Verdict  Verdict
	Reason   string // one line for people: which fact decided, or which is missing
	Weak     bool   // rests on circumstantial facts, because the kernel offers no handle
	Evidence []Evidence
}

// MaySignal reports whether the finding authorises a signal.
func (f Finding) MaySignal() bool { return f.Verdict == Owned }

// place, strong: the order is the order in which a reason is named.
var (
	place  = []Fact{SameHost, SameNamespace, SameBoot}
	strong = []Fact{Handle, Inode, Cgroup, Namespace, Group, Session, Keeper, Parent, Brand}
)

// Judge decides. Only facts that are present count as asked; a fact that is
// present with an Unknown answer could not be told and never helps.
func Judge(evidence []Evidence) Finding {
	asked := gathered(evidence)
	is := func(f Fact, a Answer) bool { v, ok := asked[f]; return ok && v == a }
	find := func(v Verdict, reason string) Finding {
		return Finding{Verdict: v, Reason: reason, Evidence: evidence}
	}

	// 1. Place: a record made elsewhere says nothing about processes here.
	if is(SameHost, No) {
		return find(Foreign, "recorded on another machine")
	}
	if is(SameNamespace, No) && !is(SameBoot, No) {
		return find(Foreign, "recorded in another PID namespace")
	}
	if is(SameBoot, No) && is(SameHost, Yes) {
		return find(Gone, "recorded before the last boot")
	}
	for _, f := range place {
		if asked[f] != Yes {
			return find(Unsure, "can't tell "+string(f))
		}
	}
	// 2. Released: out of custody until a command proves identity again.
	if is(Released, Yes) {
		return find(Foreign, "released from custody")
	}
	// 3. Life.
	if is(Live, No) {
		return find(Gone, "its handle reports that the last thread ended")
	}
	if !is(Live, Yes) {
		return find(Unsure, "can't tell "+string(Live))
	}
	// 4. One strong fact proves.
	for _, f := range strong {
		if is(f, Yes) {
			return find(Owned, "proven by "+string(f))
		}
	}
	// 5. No handle on this kernel: the start time and a second independent fact.
	_, handleAsked := asked[Handle]
	_, inodeAsked := asked[Inode]
	noHandle := !handleAsked && !inodeAsked
	if noHandle && is(Start, Yes) && is(User, Yes) && (is(Exe, Yes) || is(Cookie, Yes)) {
		f := find(Owned, "proven by start_time and a second fact; this kernel offers no durable handle")
		f.Weak = true
		return f
	}
	// 6. The owner died between fork and record: the cookie of a launch that
	// never became known to anyone, in the instant in which it was started.
	if is(Intent, Yes) && is(Cookie, Yes) && is(User, Yes) && is(Window, Yes) {
		return find(Owned, "started under an intent whose owner died before it could record more")
	}
	// 7. Something speaks for us, nothing proves it.
	if is(Cookie, Yes) && is(Born, Yes) && is(Brand, No) {
		return find(Foreign, "carries the launch's cookie, but not the brand that every descendant inherits: a copy")
	}
	if is(Cookie, Yes) {
		return find(Unsure, "carries the launch's cookie, which anyone can copy; no kernel fact ties it to the launch")
	}
	for _, f := range strong {
		if is(f, Unknown) {
			return find(Unsure, "can't tell "+string(f))
		}
	}
	// 8. The recorded number now belongs to somebody else.
	if is(Handle, No) || is(Inode, No) {
		return find(Foreign, "pid reused: the number is the recorded one, the process is not")
	}
	if is(Start, No) {
		return find(Foreign, "pid reused: started at another time")
	}
	if is(Start, Yes) {
		return find(Unsure, "start time alone is no proof: a reused pid can have the same tick")
	}
	for _, f := range strong {
		if is(f, No) {
			return find(Foreign, "no fact ties it to the launch")
		}
	}
	return find(Unsure, "nothing was asked")
}

// gathered returns the answer to each fact that was asked. Of two answers to
// one fact the less certain one counts.
func gathered(evidence []Evidence) map[Fact]Answer {
	asked := make(map[Fact]Answer, len(evidence))
	for _, e := range evidence {
		if old, ok := asked[e.Fact]; ok && old != e.Holds {
			asked[e.Fact] = Unknown
			continue
		}
		asked[e.Fact] = e.Holds
	}
	return asked
}
