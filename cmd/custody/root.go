package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

// flags that every command takes.
type common struct {
	dir   string
	scope string
	json  bool
	net   bool
}

var global common

func root() *cobra.Command {
	c := &cobra.Command{
		Use:   "custody",
		Short: "Own process trees from launch to proven-gone",
		Long: `custody owns process trees from launch to proven-gone: nothing an owner
started outlives it by accident, and nothing it did not start is ever signalled.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := c.PersistentFlags()
	f.StringVar(&global.dir, "dir", "", "state directory (default: CUSTODY_DIR, else the user's state directory)")
	f.StringVar(&global.scope, "scope", "", "scope: the name an application gives its owners")
	f.BoolVar(&global.json, "json", false, "print JSON")
	f.BoolVar(&global.net, "allow-network-fs", false, "accept a state directory on a network file system")
	c.AddCommand(runCommand(), lsCommand(), stopCommand(), sweepCommand(), explainCommand(), doctorCommand())
	return c
}

// printJSON prints v for machines.
func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// complain prints an error for people.
func complain(err error) {
	fmt.Fprintln(os.Stderr, "custody: "+strings.TrimPrefix(err.Error(), "custody: "))
}

func listOptions() custody.ListOptions {
	return custody.ListOptions{Dir: global.dir, Scope: global.scope, AllowNetworkFS: global.net}
}
