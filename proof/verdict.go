package proof

import "fmt"

// Verdict is the answer to "is this process of that launch?". The zero value
// is Unsure, and only Owned may ever be signalled.
type Verdict uint8

const (
	Unsure  Verdict = iota // a fact is missing: report, never signal, never free
	Owned                  // proven to be of the launch
	Gone                   // proven to have ended
	Foreign                // proven to be somebody else's, or not ours to judge
)

var verdicts = [...]string{"unsure", "owned", "gone", "foreign"}

// String returns exactly one of owned, gone, foreign, unsure.
func (v Verdict) String() string {
	if int(v) < len(verdicts) {
		return verdicts[v]
	}
	return verdicts[Unsure]
}

// MarshalText implements encoding.TextMarshaler.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, s := range verdicts {
		if s == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("proof: %q is no verdict", b)
}

// Answer is what was learnt of one fact. The zero value is Unknown: a fact
// nobody could ask is never taken for a no.
type Answer uint8

const (
	Unknown Answer = iota
	Yes
	No
)

// Of turns a bool that was really measured into an Answer.
func Of(b bool) Answer {
	if b {
		return Yes
	}
	return No
}

var answers = [...]string{"unknown", "yes", "no"}

// String returns unknown, yes or no.
func (a Answer) String() string {
	if int(a) < len(answers) {
		return answers[a]
	}
	return answers[Unknown]
}

// MarshalText implements encoding.TextMarshaler.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *Answer) UnmarshalText(b []byte) error {
	for i, s := range answers {
		if s == string(b) {
			*a = Answer(i)
			return nil
		}
	}
	return fmt.Errorf("proof: %q is no answer", b)
}

// MarshalJSON implements json.Marshaler: true, false, or null for unknown.
func (a Answer) MarshalJSON() ([]byte, error) {
	switch a {
	case Yes:
		return []byte("true"), nil
	case No:
		return []byte("false"), nil
	}
	return []byte("null"), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Answer) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "true":
		*a = Yes
	case "false":
		*a = No
	case "null":
		*a = Unknown
	default:
		return fmt.Errorf("proof: %s is no answer", b)
	}
	return nil
}
