// Command custody owns process trees from launch to proven-gone. It is only a
// caller of the public packages.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/custody-project/custody"
)

func main() {
	custody.ServeHelper()
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
	cmd := root()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	var ee *exitError
	if errors.As(err, &ee) {
		code = ee.code
		if ee.err == nil {
			return code
		}
	}
	complain(err)
	return code
}
