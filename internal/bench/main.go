// Bench measures what custody costs, as ratios within one run: each figure of
// custody stands beside the same thing done without it, taken in turns, so
// that a slow or busy machine slows both. `make bench` prints the table that
// docs/performance.md quotes.
//
//	bench [-only start,death,sweep,idle] [-quick]
//
// It runs programs of its own: itself as owner (roles_linux.go) and a tiny C
// program as members (testdata/members.c), for which it needs a C compiler.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/custody-project/custody"
)

func main() {
	custody.ServeHelper()
	if role := os.Getenv(roleEnv); role != "" {
		playRole(role)
	}
	only := flag.String("only", "start,death,sweep,idle", "parts to run")
	quick := flag.Bool("quick", false, "few rounds: for trying the program, not for figures")
	idle := flag.Duration("idle", time.Minute, "how long to watch idle helpers")
	command := flag.String("custody", "bin/custody", "the command whose surviving launches are measured")
	flag.Parse()
	b := &bench{quick: *quick, idle: *idle, custody: *command}
	if err := b.run(strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		if errors.Is(err, errors.ErrUnsupported) {
			os.Exit(2)
		}
		os.Exit(1)
	}
	if b.missed > 0 {
		fmt.Printf("\n%d aims missed\n", b.missed)
	}
}

// roleEnv makes the program play one of its roles.
const roleEnv = "CUSTODY_BENCH_ROLE"

type bench struct {
	quick   bool
	idle    time.Duration
	custody string // path of the command
	dir     string // temporary, for state directories
	tiny    string // path of the compiled members program
	missed  int
}

// rounds is n, or a few to try the program.
func (b *bench) rounds(n int) int {
	if b.quick {
		return min(n, 5)
	}
	return n
}

func section(title string) { fmt.Printf("\n%s\n", title) }

// aim prints one line: the figure, what was aimed at, and whether it was met.
func (b *bench) aim(ok bool, what, figure, aim string) {
	mark := "ok"
	if !ok {
		mark = "MISSED"
		b.missed++
	}
	fmt.Printf("  %-42s %-62s aim %-19s %s\n", what, figure, aim, mark)
}

func note(what, figure string) { fmt.Printf("  %-42s %s\n", what, figure) }

func median(v []time.Duration) time.Duration { return quantile(v, 2) }

// quiet is the tenth best of a hundred: what it takes when nothing else wants
// the processor.
func quiet(v []time.Duration) time.Duration { return quantile(v, 10) }

func quantile(v []time.Duration, part int) time.Duration {
	if len(v) == 0 {
		return 0
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/part]
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func show(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
