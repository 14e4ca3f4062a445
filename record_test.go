package custody

import (
	"strings"
	"testing"
)

// Whatever the arguments are, what is recorded of them has a size.
func TestBrief(t *testing.T) {
	for n := mostCommand - 6; n < mostCommand+6; n++ {
		for _, letter := range []string{"a", "ä", "\xff", "\x80"} {
			for _, args := range [][]string{
				{strings.Repeat(letter, n)}, {"x", strings.Repeat(letter, n-1), "", ""},
				{"x", strings.Repeat(letter, n-2), letter, letter}, make([]string, n),
			} {
				got := brief(args)
				size := 0
				for _, a := range got {
					size += len(a) + 1
				}
				if len(got) == 0 || size > mostCommand+64 {
					t.Errorf("%d bytes in %d arguments of %d", size, len(got), len(args))
				}
			}
		}
	}
	if got := brief([]string{"ls", "-l"}); len(got) != 2 || got[1] != "-l" {
		t.Errorf("%q", got)
	}
}
