// Mutants shows that the tests of the promises can fail: it applies each small
// change of list.txt to a copy of the tree, one at a time, and runs the test
// that must then be red. A change that survives is a missing test.
//
//	make mutants                 all of them
//	make mutants MUTANTS=keeper  those whose name holds the word
package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed list.txt
var list string

// mutant is one change and the test that guards against it.
type mutant struct {
	name, promise, file, pkg, run string
	old, new                      string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 1 {
		return fmt.Errorf("usage: mutants TREE [WORD]")
	}
	ms, err := parse(list)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "custody-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := copyTree(args[0], dir); err != nil {
		return err
	}
	survived, tried := 0, 0
	for _, m := range ms {
		if len(args) > 1 && !strings.Contains(m.name, args[1]) {
			continue
		}
		tried++
		start := time.Now()
		verdict, err := m.try(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Printf("%-8s %-4s %-50s %s %s (%.0fs)\n", verdict, m.promise, m.name, m.pkg, m.run, time.Since(start).Seconds())
		if verdict != "killed" {
			survived++
		}
	}
	fmt.Printf("%d changes, %d survived\n", tried, survived)
	if survived > 0 || tried == 0 {
		return fmt.Errorf("%d survived of %d", survived, tried)
	}
	return nil
}

// try applies the change, runs the test and takes the change back.
func (m mutant) try(dir string) (string, error) {
	path := filepath.Join(dir, m.file)
	src, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		return "", fmt.Errorf("%s: the text to change stands there %d times, want once", m.file, n)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(src), m.old, m.new, 1)), 0o644); err != nil {
		return "", err
	}
	defer os.WriteFile(path, src, 0o644)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-run", m.run, m.pkg)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	switch {
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return "", fmt.Errorf("does not build:\n%s", out)
	case bytes.Contains(out, []byte("no tests to run")):
		return "", fmt.Errorf("no test matches %s", m.run)
	case err == nil:
		return "SURVIVED", nil
	case !bytes.Contains(out, []byte("--- FAIL")) && ctx.Err() == nil && !bytes.Contains(out, []byte("panic: ")):
		return "", fmt.Errorf("no test failed, and yet: %w\n%s", err, out)
	}
	return "killed", nil
}

// parse reads the list: a block a change, as its head comment says.
func parse(text string) ([]mutant, error) {
	var ms []mutant
	for i, block := range strings.Split("\n"+text, "\n== ") {
		if i == 0 {
			continue
		}
		head, change, ok := strings.Cut(block, "\n<<<\n")
		old, after, ok2 := strings.Cut(change, "\n===\n")
		new, _, ok3 := strings.Cut("\n"+after, "\n>>>")
		new = strings.TrimPrefix(new, "\n")
		lines := strings.Split(head, "\n")
		if !ok || !ok2 || !ok3 || len(lines) != 3 {
			return nil, fmt.Errorf("bad block %q", lines[0])
		}
		m := mutant{name: lines[0], file: lines[1], old: old, new: new}
		if f := strings.Fields(lines[2]); len(f) == 3 {
			m.promise, m.pkg, m.run = f[0], f[1], f[2]
			ms = append(ms, m)
			continue
		}
		return nil, fmt.Errorf("bad third line of %q", lines[0])
	}
	return ms, nil
}

// copyTree copies the source tree, without version control and binaries.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		switch {
		case rel == ".git", rel == "bin":
			if e.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !e.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
}
