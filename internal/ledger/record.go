// Package ledger keeps the durable records: who owns which launch, how each is
// proven, and what is still to be done about it. A record outlives every
// process it names.
//
//	STATE/<scope>/<owner-id>/owner.json
//	                         lock             held by the live owner, or by its sweeper
//	                         <launch-id>.json one launch
//	STATE/<scope>/names/<name>                which launch holds a name
//	STATE/.ports/<port>                       which launch reserves a TCP port
//	STATE/<scope>/logs/<launch-id>.log        what it printed, and .log.1 … before that
//
// Files are JSON, so that a person and another language can read them;
// decoding is strict, so that a record is never believed half.
package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/custody-project/custody/proof"
)

// Version is the record version this program writes; it reads no newer one.
const Version = 1

// MaxRecord is the size in bytes above which a record is not read.
const MaxRecord = 256 << 10

// State says how far a launch got.
type State string

const (
	Intent   State = "intent"   // written before the fork, no process known
	Running  State = "running"  // the leader's identity is recorded
	Stopping State = "stopping" // stop phases have begun
	Exited   State = "exited"   // the leader ended, members or assets may be left
	Released State = "released" // handed out of custody
	Ended    State = "ended"    // proven gone, everything freed: kept for its exit status and log
)

// OnOwnerDeath says what becomes of a launch whose owner died.
type OnOwnerDeath string

const (
	Kill    OnOwnerDeath = "kill"
	Survive OnOwnerDeath = "survive"
)

// Phase is one step of a stop plan: a signal, and how long to wait for the
// tree to end after it.
type Phase struct {
	Signal string        `json:"signal"` // TERM, INT, KILL, …
	Wait   time.Duration `json:"wait_ns"`
}

// Asset is something owned that is no process, freed only after the tree is
// proven gone.
type Asset struct {
	Kind   string `json:"kind"`             // "temp-dir" (made by us) or "own-dir" (the user's, taken into custody)
	Path   string `json:"path"`             // absolute
	Env    string `json:"env,omitempty"`    // the variable by which the launch knows it
	Made   bool   `json:"made,omitempty"`   // exists, with our marker inside
	Marker string `json:"marker,omitempty"` // content of the marker file
	Dev    uint64 `json:"dev,omitempty"`    // of the directory itself
	Ino    uint64 `json:"ino,omitempty"`
}

const (
	TempDir = "temp-dir"
	OwnDir  = "own-dir"
)

// Cgroup names the launch's own cgroup v2 directory.
type Cgroup struct {
	Path string `json:"path"` // absolute, in the file system
	ID   uint64 `json:"id"`   // 64-bit kernel id, 0 until made
}

// Log is where the output of a launch goes: files of bounded size in the
// scope's directory of logs, so that they stay where they are when the launch
// is taken over.
type Log struct {
	MaxBytes int64 `json:"max_bytes"` // of one file
	Files    int   `json:"files"`     // the newest one included
}

// StopHook is a command that ends what the launch has had another service
// begin: such work descends from the service and is not ended by signals. It is
// run once at most, and its state says how far that came.
type StopHook struct {
	Command []string      `json:"command"`    // argument list, the program by its absolute path
	Timeout time.Duration `json:"timeout_ns"` // after it the hook is killed
	State   HookState     `json:"hook_state"`

	Process *proof.Identity `json:"process,omitempty"` // of the hook, once begun: it is no member
	Code    int             `json:"code,omitempty"`    // -1 if a signal ended it
	Signal  string          `json:"signal,omitempty"`
	Reason  string          `json:"reason,omitempty"` // why it failed, or can't be known
	Output  string          `json:"output,omitempty"` // the end of what it printed
}

// HookState is how far a stop hook came.
type HookState string

const (
	HookPending HookState = "pending" // not run yet
	HookBegun   HookState = "begun"   // written before it runs
	HookDone    HookState = "done"    // it ended with 0
	HookFailed  HookState = "failed"  // it could not be run, was killed, or ended otherwise
	HookUnknown HookState = "unknown" // who ran it died before its end could be written
)

var hookStates = map[HookState]bool{HookPending: true, HookBegun: true, HookDone: true, HookFailed: true, HookUnknown: true}

func (h *StopHook) check() error {
	switch {
	case h == nil:
		return nil
	case len(h.Command) == 0 || !filepath.IsAbs(h.Command[0]):
		return errors.New("stop hook without a program's absolute path")
	case h.Timeout <= 0 || h.Timeout > 24*time.Hour:
		return fmt.Errorf("stop hook with a timeout of %v: want more than none, and at most a day", h.Timeout)
	case !hookStates[h.State]:
		return fmt.Errorf("stop hook in state %q: unknown", h.State)
	case h.Process != nil:
		return h.Process.Valid()
	}
	return nil
}

// Exit is the leader's end.
type Exit struct {
	Code   int    `json:"code"`             // -1 if a signal ended it
	Signal string `json:"signal,omitempty"` // KILL, SEGV, …
	Status uint32 `json:"wait_status"`
	OOM    bool   `json:"oom,omitempty"` // by KILL, and its memory cgroup had a victim of the kernel's OOM killer meanwhile
}

// Record is the durable fact file of one launch. It never holds the
// environment: secrets live there.
type Record struct {
	Version int      `json:"version"`
	ID      proof.ID `json:"id"`
	Scope   string   `json:"scope"`
	Owner   proof.ID `json:"owner"`
	Name    string   `json:"name,omitempty"`
	State   State    `json:"state"`

	Labels       map[string]string `json:"labels,omitempty"`
	OnOwnerDeath OnOwnerDeath      `json:"on_owner_death"`
	Linger       bool              `json:"linger,omitempty"`
	Phases       []Phase           `json:"phases"`
	DeathPhases  []Phase           `json:"death_phases"`

	Level   string `json:"level"`             // achieved
	Require string `json:"require,omitempty"` // asked for

	Host  string `json:"host"`
	Boot  string `json:"boot"`
	PIDNS uint64 `json:"pid_namespace"`
	UID   int    `json:"uid"`

	IntentTicks uint64           `json:"intent_ticks"` // boot clock at the intent, 1/100 s
	Leader      *proof.Identity  `json:"leader,omitempty"`
	Keeper      *proof.Identity  `json:"keeper,omitempty"`
	Members     []proof.Identity `json:"members,omitempty"` // seen outside the leader's group
	Cgroup      *Cgroup          `json:"cgroup,omitempty"`
	TreeNS      uint64           `json:"tree_namespace,omitempty"` // the launch's own PID namespace
	Brand       uint64           `json:"brand,omitempty"`
	Born        bool             `json:"branded_from_birth,omitempty"`
	Container   *Container       `json:"container,omitempty"` // instead of all of these

	PhasesSent int     `json:"phases_sent,omitempty"` // stop phases already begun
	Exit       *Exit   `json:"exit,omitempty"`
	Assets     []Asset `json:"assets,omitempty"`
	Ports      []int   `json:"ports,omitempty"` // TCP, reserved until the record has ended
	Log        *Log    `json:"log,omitempty"`

	StopHook *StopHook `json:"stop_hook,omitempty"`

	TakenBy proof.ID  `json:"taken_by,omitzero"` // the owner that is taking the launch over
	EndedAt time.Time `json:"ended_at,omitzero"` // when it was proven gone

	Command   []string  `json:"command"`
	StartedAt time.Time `json:"started_at"` // for people only
}

// OwnerRecord is owner.json.
type OwnerRecord struct {
	Version  int            `json:"version"`
	ID       proof.ID       `json:"id"`
	Scope    string         `json:"scope"`
	Host     string         `json:"host"`
	Boot     string         `json:"boot"`
	PIDNS    uint64         `json:"pid_namespace"`
	Process  proof.Identity `json:"process"`
	Command  []string       `json:"command,omitempty"`
	Closed   bool           `json:"closed,omitempty"`
	Behalf   bool           `json:"on_behalf,omitempty"` // of a process that holds no lock: it lives while that does
	OpenedAt time.Time      `json:"opened_at"`
}

// Encode returns the file form of v.
func encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	if len(b) >= MaxRecord {
		return nil, fmt.Errorf("record of %d bytes: at most %d are kept", len(b), MaxRecord)
	}
	return append(b, '\n'), nil
}

// decode reads exactly one JSON value with known fields only.
func decode(b []byte, into any) error {
	if len(b) > MaxRecord {
		return fmt.Errorf("%d bytes: larger than %d", len(b), MaxRecord)
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return errors.New("empty")
	}
	var v struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	switch {
	case v.Version == nil:
		return errors.New("no version")
	case *v.Version > Version:
		return fmt.Errorf("version %d: newer than the %d this program knows", *v.Version, Version)
	case *v.Version < 1:
		return fmt.Errorf("version %d: there was none", *v.Version)
	}
	if err := checkKeys(b); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// DecodeRecord reads and checks a record. What it accepts is well formed; if
// it is true is for proof to say.
func DecodeRecord(b []byte) (*Record, error) {
	r := new(Record)
	if err := decode(b, r); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// EncodeRecord returns the file form of r.
func EncodeRecord(r *Record) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return encode(r)
}

var (
	states = map[State]bool{Intent: true, Running: true, Stopping: true, Exited: true, Released: true, Ended: true}
	levels = map[string]bool{"": true, "process": true, "group": true, "lineage": true, "cgroup": true, "pidns": true, "job": true, ContainerLevel: true}
)

// Started reports whether something of the launch may have run.
func (r *Record) Started() bool {
	c := r.Container
	return r.Leader != nil || c != nil && c.ID != "" && (r.State != Intent || r.Exit != nil)
}

func (r *Record) check() error {
	switch {
	case r.ID.IsZero():
		return errors.New("no launch id")
	case r.Owner.IsZero():
		return errors.New("no owner id")
	case !states[r.State]:
		return fmt.Errorf("state %q: unknown", r.State)
	case r.OnOwnerDeath != Kill && r.OnOwnerDeath != Survive:
		return fmt.Errorf("on_owner_death %q: unknown", r.OnOwnerDeath)
	case !levels[r.Level] || !levels[r.Require]:
		return fmt.Errorf("level %q (required %q): unknown", r.Level, r.Require)
	case r.Boot == "" || r.PIDNS == 0:
		return errors.New("no boot or PID namespace: nothing can be proven of it")
	case r.UID < 0:
		return fmt.Errorf("uid %d", r.UID)
	case r.State != Intent && r.Leader == nil && (r.Container == nil || r.Container.ID == ""):
		return fmt.Errorf("state %s without a leader", r.State)
	case len(r.Phases) == 0 || len(r.Phases) > 32 || len(r.DeathPhases) == 0 || len(r.DeathPhases) > 32:
		return fmt.Errorf("%d phases and %d death phases: want 1 to 32", len(r.Phases), len(r.DeathPhases))
	case r.Log != nil && (r.Log.MaxBytes < 1 || r.Log.Files < 1 || r.Log.Files > 1000):
		return fmt.Errorf("log of %d files of %d bytes", r.Log.Files, r.Log.MaxBytes)
	case r.PhasesSent < 0:
		return fmt.Errorf("phases_sent %d", r.PhasesSent)
	}
	if err := r.checkContainer(); err != nil {
		return err
	}
	if err := r.StopHook.check(); err != nil {
		return err
	}
	if err := CheckScope(r.Scope); err != nil {
		return err
	}
	if r.Name != "" {
		if err := CheckName(r.Name); err != nil {
			return err
		}
	}
	if err := CheckPorts(r.Ports); err != nil {
		return err
	}
	for _, p := range append(append([]Phase{}, r.Phases...), r.DeathPhases...) {
		if p.Signal == "" || p.Wait < 0 || p.Wait > 24*time.Hour {
			return fmt.Errorf("phase %s:%v: want a signal and at most a day", p.Signal, p.Wait)
		}
	}
	ids := append([]proof.Identity{}, r.Members...)
	for _, id := range []*proof.Identity{r.Leader, r.Keeper} {
		if id != nil {
			ids = append(ids, *id)
		}
	}
	for _, id := range ids {
		if err := id.Valid(); err != nil {
			return err
		}
	}
	if c := r.Cgroup; c != nil {
		if err := checkPath(c.Path); err != nil {
			return fmt.Errorf("cgroup: %w", err)
		}
		if !strings.HasSuffix(c.Path, "/custody-"+r.ID.String()) {
			return fmt.Errorf("cgroup %q: not named after the launch", c.Path)
		}
	}
	for _, a := range r.Assets {
		if a.Kind != TempDir && a.Kind != OwnDir {
			return fmt.Errorf("asset of kind %q: unknown", a.Kind)
		}
		if err := checkPath(a.Path); err != nil {
			return fmt.Errorf("asset: %w", err)
		}
		if a.Kind == TempDir {
			if err := CheckName(a.Env); err != nil {
				return fmt.Errorf("asset: %w", err)
			}
		}
	}
	return nil
}

// checkPath refuses a path that could name something else than it seems to.
func checkPath(p string) error {
	if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" || len(p) > 4096 || strings.ContainsRune(p, 0) {
		return fmt.Errorf("path %.80q: want an absolute, clean one that is not the root", p)
	}
	return nil
}

// CheckScope returns an error unless s can be a scope: 1 to 64 letters,
// digits, '.', '_' or '-', not starting with '.' or '-'.
func CheckScope(s string) error { return checkWord("scope", s, 64, "._-") }

// CheckName returns an error unless s can be a launch's name: 1 to 100
// letters, digits, '.', '_', '-', '@', ':' or '+', not starting with '.' or
// '-'.
func CheckName(s string) error { return checkWord("name", s, 100, "._-@:+") }

func checkWord(what, s string, most int, extra string) error {
	bad := s == "" || len(s) > most || s[0] == '.' || s[0] == '-'
	for _, c := range s {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune(extra, c)
		bad = bad || !ok
	}
	if bad {
		return fmt.Errorf("%s %.120q: want 1 to %d letters, digits or any of %s, not starting with '.' or '-'", what, s, most, extra)
	}
	return nil
}
