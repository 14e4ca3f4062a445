// Treeprog plays the tree programs as a binary of its own, for tests that
// cannot run themselves: under another user, in a container, by hand.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/custody-project/custody/internal/tree"
)

func main() {
	tree.Main()
	fmt.Fprintf(os.Stderr, "usage: %s tree:NAME [flags]\nprograms: %s\n",
		os.Args[0], strings.Join(tree.Names(), " "))
	os.Exit(2)
}
