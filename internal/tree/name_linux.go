// The short name of a process, as ps and the kernel show it.

package tree

import "os"

// setName names the whole process, whichever thread asks.
func setName(name string) error {
	return os.WriteFile("/proc/self/comm", []byte(name[:min(len(name), 15)]), 0)
}
