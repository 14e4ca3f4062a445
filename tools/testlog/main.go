// Testlog turns the events of `go test -json` back into what a person reads:
// the closing line of each package and the output of each failed test. It then
// lists every skipped test with its reason, and fails if a reason is not among
// the allowed ones below: a test that quietly stops running guards nothing.
//
//	go test -json ./... | testlog [-user]
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// allowed says why a test may be skipped by root on a machine prepared by
// .ci/run; allowedUser why by an ordinary user besides.
var (
	allowed = []string{
		`(?i)only in the ordinary user's run|not as root`,
		`(?i)kernel is too old`,
	}
	allowedUser = []string{
		`(?i)\broot\b`,
		`(?i)no (writable|delegated) cgroup`,
		`(?i)no cgroup`,
	}
)

type event struct {
	Action, Package, Test, Output string
}

func main() {
	user := flag.Bool("user", false, "the suite runs as an ordinary user: what needs root may be skipped")
	flag.Parse()
	if *user {
		allowed = append(allowed, allowedUser...)
	}
	ok := regexp.MustCompile(strings.Join(allowed, "|"))

	said := map[string]*strings.Builder{}
	var skips []string
	passed, failed, refused := 0, 0, 0
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil || e.Action == "" {
			fmt.Println(in.Text()) // not an event: make, or the go command itself
			continue
		}
		key := e.Package + " " + e.Test
		switch {
		case e.Action == "output" && e.Test != "":
			if said[key] == nil {
				said[key] = &strings.Builder{}
			}
			said[key].WriteString(e.Output)
			continue
		case e.Output != "":
			if e.Output != "PASS\n" {
				fmt.Print(e.Output)
			}
			continue
		case e.Test == "":
			continue
		}
		switch e.Action {
		case "pass":
			passed++
		case "fail":
			failed++
			fmt.Print(said[key])
		case "skip":
			why := reason(said[key])
			if !ok.MatchString(why) {
				refused++
				why += "   <- not an allowed reason"
			}
			skips = append(skips, fmt.Sprintf("  %s %s: %s", e.Package, e.Test, why))
		default:
			continue
		}
		delete(said, key)
	}
	// A test that was cut short by a panic or a time-out has no end.
	for key, s := range said {
		fmt.Printf("unfinished: %s\n%s", key, s)
	}
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", passed, failed, len(skips))
	for _, s := range skips {
		fmt.Println(s)
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		os.Exit(1)
	}
	if passed == 0 || failed > 0 || refused > 0 {
		os.Exit(1)
	}
}

var noise = regexp.MustCompile(`(?m)^\s*(=== .*|--- SKIP.*)\n`)

func reason(s *strings.Builder) string {
	if s == nil {
		return ""
	}
	return strings.Join(strings.Fields(noise.ReplaceAllString(s.String(), "")), " ")
}
