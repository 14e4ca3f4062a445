package custody

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/custody-project/custody/internal/helper"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// Answer is what was learnt of one question: yes, no, or unknown.
type Answer = proof.Answer

// The answers. The zero value is Unknown.
const (
	Unknown = proof.Unknown
	Yes     = proof.Yes
	No      = proof.No
)

// Check is one thing that Doctor asked of this host, by using it once.
type Check struct {
	Name   string `json:"name"`
	Answer Answer `json:"answer"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

// LevelCheck says if a level of containment can be had here.
type LevelCheck struct {
	Level     Level  `json:"level"`
	Available Answer `json:"available"`
	Missing   string `json:"missing,omitempty"`
	Remedy    string `json:"remedy,omitempty"`
}

// Diagnosis is what this host can guarantee, and what is missing for more.
type Diagnosis struct {
	System   string       `json:"system"`
	StateDir string       `json:"state_dir"`
	Checks   []Check      `json:"checks"`
	Levels   []LevelCheck `json:"levels"`
}

// OK reports whether every check that custody can't do without was answered
// yes.
func (d Diagnosis) OK() bool {
	for _, c := range d.Checks {
		if c.Answer != proof.Yes && needed[c.Name] {
			return false
		}
	}
	return true
}

var needed = map[string]bool{"process handles": true, "place": true, "state directory": true, "helper": true}

// Doctor asks the kernel for everything custody uses, by using each once, and
// looks at the state directory. It changes nothing but for making the state
// directory if it is missing.
func Doctor(opt Options) Diagnosis {
	dir, err := StateDir(opt.Dir)
	d := Diagnosis{System: host.System(), StateDir: dir}
	add := func(name string, err error, yes, remedy string) proof.Answer {
		c := Check{Name: name, Answer: proof.Yes, Detail: yes}
		if err != nil {
			c.Answer, c.Detail, c.Remedy = proof.Unknown, err.Error(), remedy
			if errors.Is(err, host.ErrUnsupported) || needed[name] {
				c.Answer = proof.No
			}
		}
		d.Checks = append(d.Checks, c)
		return c.Answer
	}
	p, err2 := host.Open(os.Getpid())
	handles := add("process handles", err2, "pidfd_open works", "Linux 5.3 or later is needed")
	if err2 == nil {
		defer p.Close()
		_, err2 = p.Inode()
		add("pidfs inode", err2, "every process has an inode of its own", "Linux 6.9 tells a reused pid apart by it; before, identity is start time and executable")
		_, _, err2 = p.FileHandle()
		add("durable handle", err2, "handles can be stored and opened again", "Linux 6.14 opens a recorded process again after a crash; before, a group whose leader is gone can't be proven")
		if id, err := p.Identity(); err == nil {
			q, err := host.Reopen(id)
			if err == nil {
				q.Close()
			}
			add("open by handle", err, "open_by_handle_at works", "Linux 6.14, and our PID namespace must be the one /proc shows")
		}
		_, err2 = p.CgroupID()
		add("process info", err2, "PIDFD_GET_INFO works", "Linux 6.13; before, fdinfo and /proc are used")
		_, err2 = p.Children()
		add("children lists", err2, "/proc/PID/task/TID/children is there", "a kernel with CONFIG_PROC_CHILDREN; before, the whole process table is walked")
		_, err2 = p.Brand()
		add("brand", err2, "RLIMIT_RTTIME can be read in /proc/PID/limits", "/proc without hidepid")
	}
	_, err2 = host.Here()
	add("place", err2, "machine, boot and PID namespace are known", "mount the /proc of this PID namespace")
	_, err2 = host.ReadTable()
	add("process table", err2, "every process can be listed", "mount /proc without hidepid, or be root")
	if err == nil {
		var s *ledger.Store
		if s, err = ledger.OpenStore(dir, ledger.Options{Create: true, AllowNetworkFS: opt.AllowNetworkFS}); err == nil {
			s.Close()
		}
	}
	add("state directory", err, "private and local", "choose a private, local one with --dir or CUSTODY_DIR")
	_, err = helper.Find(opt.Helper)
	add("helper", err, "a program can serve as helper", "")
	d.Checks = append(d.Checks, surroundings()...)

	base, cgErr := host.CgroupBase()
	level := func(l Level, ok bool, missing, remedy string) {
		c := LevelCheck{Level: l, Available: proof.Of(ok)}
		if !ok {
			c.Missing, c.Remedy = missing, remedy
		}
		d.Levels = append(d.Levels, c)
	}
	ok := handles == proof.Yes
	level(LevelGroup, ok, "process handles", "Linux 5.3 or later")
	level(LevelLineage, ok && err == nil, "process handles and a helper", "call ServeHelper, or install the custody binary")
	missing := ""
	if cgErr != nil {
		missing = lacking(cgErr)
	}
	ns := host.CanNamespace()
	noNS := "process handles and a helper"
	if ns != nil {
		noNS = lacking(ns)
	}
	level(LevelPIDNS, ok && err == nil && ns == nil, noNS, "run as root, or allow user namespaces")
	level(LevelCgroup, ok && base != "", missing, "run where a cgroup v2 directory is writable or delegated")
	return d
}

// lacking says what is missing, for people: that it is unsupported they see.
func lacking(err error) string {
	text := err.Error()
	for _, format := range []string{": %v", " (%v)"} {
		text = strings.TrimSuffix(text, fmt.Sprintf(format, errors.ErrUnsupported))
	}
	return text
}

// System names the operating system and its kernel version.
func System() string { return host.System() }
