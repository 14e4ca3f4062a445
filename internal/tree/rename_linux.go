// Members that do not look like what was started: one with another short name
// and argument list, one that wrote its title over its environment as well.
// The Go runtime's strings for both lie in the memory that the kernel shows in
// /proc. Each announces leader (or its role) when it has changed.

package tree

import (
	"os"
	"unsafe"
)

func init() {
	register("rename", rename)
	register("retitle", retitle)
}

func rename(p *proc) {
	name := p.String("name", "kworker/0:0", "the new name")
	p.parse()
	title := "[" + *name + "]" // a copy, which outlives the flag's memory
	args := memoryOf(os.Args)
	p.must(setName(*name))
	fill(args, title, 0)
	p.announce()
	p.park()
}

func retitle(p *proc) {
	title := p.String("title", "postgres: idle in transaction", "the new title")
	p.parse()
	text := "~" + *title
	env := memoryOf(os.Environ())
	args := memoryOf(os.Args)
	if len(env) == 0 {
		p.fail("no environment to write over")
	}
	p.must(setName(text[1:]))
	fill(args, text[1:], ' ')
	// The kernel reads a title on into the environment when the arguments no
	// longer end in a zero byte.
	fill(env, "", 'x')
	p.announce()
	p.park()
}

// memoryOf returns the block that holds the given strings one after the other,
// each with a zero byte behind it, as the kernel laid them out. It stops at the
// first string that is elsewhere.
func memoryOf(list []string) []byte {
	if len(list) == 0 {
		return nil
	}
	start := unsafe.StringData(list[0])
	n := 0
	for _, s := range list {
		if unsafe.Pointer(unsafe.StringData(s)) != unsafe.Add(unsafe.Pointer(start), n) {
			break
		}
		n += len(s) + 1
	}
	return unsafe.Slice(start, n)
}

// fill overwrites a block with a text, padded.
func fill(block []byte, text string, pad byte) {
	n := copy(block, text)
	for i := n; i < len(block); i++ {
		block[i] = pad
	}
}
