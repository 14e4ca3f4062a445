// Members that do not look like what was started: one with another short name
// and argument list, one that wrote its title over its environment as well.
// The strings of os.Args lie in the memory that the kernel shows in /proc, and
// the environment lies behind them. Each announces leader (or its role) when it
// has changed.

package tree

import (
	"fmt"
	"os"
	"strconv"
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
	args := memoryOf(os.Args)
	env, err := environBehind(args)
	p.must(err)
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

// environBehind returns the block of the environment, which the kernel says
// where to find relative to the arguments.
func environBehind(args []byte) ([]byte, error) {
	f, err := statFields(os.Getpid())
	if err != nil {
		return nil, err
	}
	var at [3]int // arg_start, env_start, env_end
	for i, field := range []int{45, 47, 48} {
		if at[i], err = strconv.Atoi(f[field]); err != nil {
			return nil, err
		}
	}
	first := unsafe.Pointer(unsafe.SliceData(args))
	if at[0] != int(uintptr(first)) || at[2] <= at[1] {
		return nil, fmt.Errorf("arguments at %p, the kernel says %v", first, at)
	}
	return unsafe.Slice((*byte)(unsafe.Add(first, at[1]-at[0])), at[2]-at[1]), nil
}

// fill overwrites a block with a text, padded.
func fill(block []byte, text string, pad byte) {
	n := copy(block, text)
	for i := n; i < len(block); i++ {
		block[i] = pad
	}
}
