package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

//go:embed testdata/members.c
var membersC []byte

func (b *bench) run(parts []string) error {
	var err error
	if b.dir, err = os.MkdirTemp("", "custody-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.compile(); err != nil {
		return err
	}
	// Orphans of what we end come to us, and are collected between rounds.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	var u unix.Utsname
	unix.Uname(&u)
	fmt.Printf("Linux %s, %d CPUs, %s\n", unix.ByteSliceToString(u.Release[:]), runtime.NumCPU(), runtime.Version())
	for _, p := range parts {
		switch p {
		case "start":
			err = b.start()
		case "death":
			err = b.death()
		case "sweep":
			err = b.sweep()
		case "idle":
			err = b.idleHelpers()
		default:
			err = fmt.Errorf("no part %q: there are start, death, sweep, idle", p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

func (b *bench) compile() error {
	src := filepath.Join(b.dir, "members.c")
	b.tiny = filepath.Join(b.dir, "members")
	if err := os.WriteFile(src, membersC, 0o600); err != nil {
		return err
	}
	out, err := exec.Command("cc", "-O1", "-static", "-o", b.tiny, src).CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile the members: %w\n%s", err, out)
	}
	return nil
}

// collect reaps the orphans that came to us. Nothing of ours is waited for
// meanwhile.
func collect() {
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && err != unix.EINTR {
			return
		}
	}
}
