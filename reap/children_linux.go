package reap

// The list of a thread's children, /proc/self/task/TID/children
// (proc_pid_task_tid_children(5)). The kernel gives a page at a time and goes on
// by position, so it may leave out some while others are collected; it never
// names a process that is none. The next look sees what was left out.

import (
	"errors"
	"fmt"
	"io"
)

// eachChild calls f for each child of the main thread until it returns false.
// The file stays open, since a program that is out of descriptors has zombies
// too.
func (r *Reaper) eachChild(f func(pid int) (bool, error)) error {
	pid := 0
	for offset := int64(0); ; {
		n, err := r.children.ReadAt(r.buf, offset)
		offset += int64(n)
		for _, b := range r.buf[:n] {
			switch {
			case b >= '0' && b <= '9':
				pid = pid*10 + int(b-'0')
			case b == ' ' && pid > 0:
				if more, err := f(pid); err != nil || !more {
					return err
				}
				pid = 0
			default:
				return fmt.Errorf("children: %q is no pid", b)
			}
		}
		switch {
		case errors.Is(err, io.EOF) || n == 0 && err == nil:
			return nil
		case err != nil:
			return err
		}
	}
}
