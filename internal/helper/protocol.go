package helper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// Spec is what a keeper is told to start. It travels over the control socket,
// never over the disk: environments hold secrets.
type Spec struct {
	OwnerDir string   `json:"-"`
	ID       proof.ID `json:"id"`
	Path     string   `json:"-"`
	Args     []string `json:"-"`
	Env      []string `json:"-"`
	Dir      string   `json:"-"`
	Extra    int      `json:"extra"`    // files for the leader beyond the standard three
	Terminal bool     `json:"terminal"` // the leader stays in our session, in a group of its own
	Front    bool     `json:"front"`    // and that group gets the terminal before the command runs
	Join     bool     `json:"join"`     // enter the cgroup by cgroup.procs, not by clone
	PIDNS    bool     `json:"pidns"`    // a PID namespace of its own
	Attr     Attr     `json:"attr"`
	Linger   bool     `json:"linger"`
	Survive  bool     `json:"survive"`

	Log *ledger.Log `json:"log,omitempty"` // its pipe comes after the extra files
}

// packed is a Spec on its way. What the kernel takes as bytes travels as
// bytes: JSON strings are UTF-8, and lose what is not.
type packed struct {
	Spec
	OwnerDir []byte   `json:"owner_dir"`
	Path     []byte   `json:"path"`
	Args     [][]byte `json:"args"`
	Env      [][]byte `json:"env"`
	Dir      []byte   `json:"dir"`
}

func (s Spec) pack() packed {
	return packed{Spec: s, OwnerDir: []byte(s.OwnerDir), Path: []byte(s.Path),
		Args: bytesOf(s.Args), Env: bytesOf(s.Env), Dir: []byte(s.Dir)}
}

func (p packed) unpack() Spec {
	s := p.Spec
	s.OwnerDir, s.Path, s.Dir = string(p.OwnerDir), string(p.Path), string(p.Dir)
	s.Args, s.Env = stringsOf(p.Args), stringsOf(p.Env)
	return s
}

func bytesOf(ss []string) [][]byte {
	out := make([][]byte, len(ss))
	for i, s := range ss {
		out[i] = []byte(s)
	}
	return out
}

func stringsOf(bs [][]byte) []string {
	out := make([]string, len(bs))
	for i, b := range bs {
		out[i] = string(b)
	}
	return out
}

// Event is one message from a keeper to its owner.
type Event struct {
	Type    string        `json:"type"` // started, failed, exit, stopped, ended
	PID     int           `json:"pid,omitempty"`
	Status  uint32        `json:"status,omitempty"` // wait status of the leader
	Signal  int           `json:"signal,omitempty"` // that stopped it
	Failure *Failure      `json:"failure,omitempty"`
	Result  *sweep.Result `json:"result,omitempty"`
}

// order is one message from an owner to its keeper.
type order struct {
	Type string `json:"type"` // hurry, kill
}

// Failure carries an error across the process border such that errors.Is and
// errors.As go on working.
type Failure struct {
	Op    string `json:"op"`
	Path  []byte `json:"path,omitempty"` // bytes, as every path
	Errno int    `json:"errno,omitempty"`
	Text  string `json:"text,omitempty"`
}

func failureOf(err error) *Failure {
	f := &Failure{Text: err.Error()}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		f.Op, f.Path = pe.Op, []byte(pe.Path)
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		f.Errno = int(no)
	}
	return f
}

// Err turns the failure back into an error: a *fs.PathError around the errno,
// as os/exec returns it.
func (f *Failure) Err() error {
	switch {
	case f.Errno != 0 && f.Op != "":
		return &fs.PathError{Op: f.Op, Path: string(f.Path), Err: syscall.Errno(f.Errno)}
	case f.Errno != 0:
		return fmt.Errorf("%s: %w", f.Text, syscall.Errno(f.Errno))
	}
	return errors.New(f.Text)
}

// Conn is the control socket.
type Conn struct {
	f   *os.File
	mu  sync.Mutex // guards the encoder
	enc *json.Encoder
	dec *json.Decoder
}

func newConn(f *os.File) *Conn {
	return &Conn{f: f, enc: json.NewEncoder(f), dec: json.NewDecoder(f)}
}

// Receive returns the keeper's next message; io.EOF when it has died.
func (c *Conn) Receive() (Event, error) {
	var e Event
	err := c.dec.Decode(&e)
	return e, err
}

// Kill tells the keeper to go straight to KILL if it is stopping the tree.
func (c *Conn) Kill() error { return c.order("kill") }

// Hurry tells the keeper to wait no longer in the phase it is in.
func (c *Conn) Hurry() error { return c.order("hurry") }

func (c *Conn) order(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enc.Encode(order{Type: what})
}

// Close closes the owner's end.
func (c *Conn) Close() error { return c.f.Close() }

// Probe starts a process that ends at once inside a cgroup, and returns an
// error unless it lived to do so.
func (b Binary) Probe(cgroup string) error {
	c, err := b.command("probe", nil)
	if err != nil {
		return err
	}
	d, err := contain.PrepareDirect(c, cgroup)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := c.Start(); err != nil {
		return err
	}
	if p, err := d.Process(c.Process.Pid); err == nil {
		p.Close()
	}
	return c.Wait()
}

// Mirror starts a process that ends with the given wait status and returns
// after it ended: its ProcessState is the standard library's own. One that
// ends otherwise is tried again for about a second: where no thread can be had
// the Go runtime exits with 2, and whoever kills for lack of memory may kill
// it, and neither is how the leader ended.
func (b Binary) Mirror(status uint32) (*os.ProcessState, error) {
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		state, err := b.mirrorOnce(status)
		if err == nil && !mirrors(state, status) {
			err = fmt.Errorf("mirror exit status: the process that was to end so ended by itself: %v", state)
		}
		if err == nil {
			return state, nil
		}
		if pause > 640*time.Millisecond {
			return nil, err
		}
		time.Sleep(pause)
	}
}

func (b Binary) mirrorOnce(status uint32) (*os.ProcessState, error) {
	c, err := b.command("mirror", status)
	if err != nil {
		return nil, err
	}
	err = c.Run()
	if c.ProcessState == nil {
		return nil, fmt.Errorf("mirror exit status: %w", err)
	}
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		return nil, fmt.Errorf("mirror exit status: %w", err)
	}
	return c.ProcessState, nil
}
