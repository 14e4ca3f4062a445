// Command custody owns process trees from launch to proven-gone. It is only a
// caller of the public packages.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/custody-project/custody"
)

func main() {
	custody.ServeHelper()
	playDemoRole()
	os.Exit(execute(context.Background(), os.Args[1:]))
}

// Exit codes of custody itself; run mirrors the command's own.
const (
	exitOK         = 0
	exitIncomplete = 1   // something could not be ended, or records were set aside
	exitFailed     = 125 // custody failed
	exitCannotExec = 126 // the command can't be executed
	exitNotFound   = 127 // the command was not found
)

// exitError carries an exit code; a nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func execute(ctx context.Context, args []string) int {
	global = common{}
	cmd := root()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if errors.Is(out.err, syscall.EPIPE) || errors.Is(err, syscall.EPIPE) {
		return exitFailed // the reader went away, and wants no complaint
	}
	if err == nil && out.err != nil {
		err = fmt.Errorf("print the result: %w", out.err)
	}
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	var ee *exitError
	if errors.As(err, &ee) && ee.err == nil {
		return code
	}
	if !global.json { // a bad flag before it ends the parsing
		global.json = asksForJSON(args)
	}
	complainCode(err, code)
	return code
}

// exitCode maps an error to the exit code that tells it apart in a script.
func exitCode(err error) int {
	var ee *exitError
	switch {
	case errors.As(err, &ee):
		return ee.code
	case errors.Is(err, custody.ErrIncomplete):
		return exitIncomplete
	}
	return exitFailed
}

// asksForJSON looks for --json among custody's own flags.
func asksForJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}
