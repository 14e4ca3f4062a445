package main

import (
	"fmt"
	"path/filepath"
)

// start: what a Start costs against exec.Cmd.Start of the same program in a
// session of its own.
func (b *bench) start() error {
	section("Start of a command: custody against exec.Cmd.Start, in turns")
	for i, c := range []struct {
		what, without string
		kept          bool
		rounds        int
	}{
		{"direct, level group", "cgroup", false, 400},
		{"direct, level cgroup", "", false, 400},
		{"kept, level lineage", "cgroup", true, 100},
		{"kept, level cgroup", "", true, 100},
	} {
		r, err := play("start", c.without, ask{Dir: filepath.Join(b.dir, fmt.Sprint("start", i)), Tiny: b.tiny, Kept: c.kept, Rounds: b.rounds(c.rounds)})
		if err != nil {
			return err
		}
		t, err := r.answer()
		if e := r.end(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
		base, own := median(t.Base), median(t.Custody)
		figure := fmt.Sprintf("%.2f  (%s against %s; best tenth %.2f: %s against %s)", ratio(own, base), show(own), show(base),
			ratio(quiet(t.Custody), quiet(t.Base)), show(quiet(t.Custody)), show(quiet(t.Base)))
		what := c.what
		if t.Level != "" && c.without == "" && t.Level != "cgroup" {
			what += " (not to be had: " + t.Level + ")"
		}
		if c.kept {
			note(what, figure)
			continue
		}
		b.aim(ratio(own, base) <= 1.10, what, figure, "≤ 1.10")
	}
	return nil
}
