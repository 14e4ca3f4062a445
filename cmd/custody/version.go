package main

import (
	"runtime"
	"runtime/debug"

	"github.com/custody-project/custody"
	"github.com/spf13/cobra"
)

// versionInfo is what version prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // built from a changed work tree
	Go       string `json:"go"`
	System   string `json:"system"`
	Arch     string `json:"arch"`
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of custody, of Go and of the kernel",
		Args: none, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			if global.json {
				return printJSON(v)
			}
			commit := v.Commit
			if v.Modified {
				commit += " (modified)"
			}
			out.printf("custody  %s\ncommit   %s\ngo       %s\nsystem   %s %s\n", v.Version, commit, v.Go, v.System, v.Arch)
			return nil
		},
	}
}

func readVersion() versionInfo {
	v := versionInfo{Version: "unknown", Commit: "unknown", Go: runtime.Version(), System: custody.System(), Arch: runtime.GOARCH}
	if b, ok := debug.ReadBuildInfo(); ok {
		if b.Main.Version != "" {
			v.Version = b.Main.Version
		}
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}
