//go:build !linux

package host

import "os"

// Terminal is our controlling terminal.
type Terminal struct{}

func OpenTerminal() (*Terminal, error)       { return nil, ErrUnsupported }
func (t *Terminal) Close() error             { return nil }
func (t *Terminal) Foreground() (int, error) { return 0, ErrUnsupported }
func (t *Terminal) SetForeground(int) error  { return ErrUnsupported }
func OurGroup() int                          { return 0 }
func Parent() (*Process, error)              { return nil, ErrUnsupported }
func StopSelf()                              {}
func IsPipe(*os.File) bool                   { return false }
