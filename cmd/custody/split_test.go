package main

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplitCommand(t *testing.T) {
	for in, want := range map[string][]string{
		"":                                  nil,
		"docker stop web":                   {"docker", "stop", "web"},
		"  a\t'b c'd  \"e f\\\"\" \\$x '' ": {"a", "b cd", "e f\"", "$x", ""},
		`["sh", "-c", "a | b"]`:             {"sh", "-c", "a | b"},
	} {
		if got, err := splitCommand(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{" ", "a | b", "a $HOME", "'a", "\"a", "a\\", "[1]", "[]", "[\"a\"", "a>b"} {
		if got, err := splitCommand(bad); err == nil {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
}

// What we show as a command line is read as the same command.
func TestSplitIsTheInverseOfShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[ -~]{0,9}`), 1, 5).Draw(t, "words")
		if strings.HasPrefix(words[0], "[") {
			t.Skip("reads as JSON")
		}
		got, err := splitCommand(shownCommand(words))
		if err != nil || !slices.Equal(got, words) {
			t.Fatalf("%q became %q, %v", words, got, err)
		}
	})
}
