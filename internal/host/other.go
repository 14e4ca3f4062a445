//go:build !linux

package host

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/custody-project/custody/proof"
)

// On these systems nothing can be asked yet: every question is answered with
// ErrUnsupported, so that every verdict is unsure.

// Process is an opened handle of one process.
type Process struct{ pid int }

// Brand is the mark a launch's descendants inherit.
type Brand uint64

func Open(int) (*Process, error)                 { return nil, ErrUnsupported }
func Reopen(proof.Identity) (*Process, error)    { return nil, ErrUnsupported }
func Recognise(proof.Identity) (*Process, error) { return nil, ErrUnsupported }
func FromFD(fd, pid int) *Process                { return &Process{pid: pid} }
func PollExit([]*Process, time.Duration)         {}

func (p *Process) PID() int                           { return p.pid }
func (p *Process) Close() error                       { return nil }
func (p *Process) Use(func(fd int) error) error       { return ErrUnsupported }
func (p *Process) Dup() (*Process, error)             { return nil, ErrUnsupported }
func Lives(proof.Identity) proof.Answer               { return proof.Unknown }
func (p *Process) Is(proof.Identity) bool             { return false }
func (p *Process) Exited() (bool, error)              { return false, ErrUnsupported }
func (p *Process) Numbered() error                    { return ErrUnsupported }
func (p *Process) Identity() (proof.Identity, error)  { return proof.Identity{}, ErrUnsupported }
func (p *Process) Inode() (uint64, error)             { return 0, ErrUnsupported }
func (p *Process) FileHandle() (string, int32, error) { return "", 0, ErrUnsupported }
func (p *Process) WaitExit(context.Context) error     { return ErrUnsupported }
func (p *Process) Stat() (Row, error)                 { return Row{}, ErrUnsupported }
func (p *Process) UID() (int, error)                  { return 0, ErrUnsupported }
func (p *Process) CgroupID() (uint64, error)          { return 0, ErrUnsupported }
func (p *Process) CgroupPath() (string, error)        { return "", ErrUnsupported }
func (p *Process) Exe() (dev, ino uint64, err error)  { return 0, 0, ErrUnsupported }
func (p *Process) PIDNS() (uint64, error)             { return 0, ErrUnsupported }
func (p *Process) Env(string) (string, bool, error)   { return "", false, ErrUnsupported }
func (p *Process) Command() ([]string, error)         { return nil, ErrUnsupported }
func (p *Process) Stuck() (string, bool)              { return "", false }
func (p *Process) Children() ([]int, error)           { return nil, ErrUnsupported }
func (p *Process) Brand() (Brand, error)              { return 0, ErrUnsupported }

func Here() (Place, error)                       { return Place{}, ErrUnsupported }
func StartNow() uint64                           { return 0 }
func Ancestors() (map[int]bool, error)           { return map[int]bool{os.Getpid(): true}, nil }
func ReadMarked(string, uint64) (*Table, error)  { return nil, ErrUnsupported }
func ReadTable() (*Table, error)                 { return nil, ErrUnsupported }
func BrandOf([16]byte) Brand                     { return 0 }
func SetBrand(int, Brand) error                  { return ErrUnsupported }
func WearBrand(Brand) (func(), error)            { return nil, ErrUnsupported }
func Mark(*Process, Brand) error                 { return ErrUnsupported }
func PeekBrand(int) Brand                        { return 0 }
func MarkBelow(*Process, Brand)                  {}
func PeekEnv(int, string) (string, bool)         { return "", false }
func CgroupBase() (string, error)                { return "", ErrUnsupported }
func CgroupBaseOf(int) (string, error)           { return "", ErrUnsupported }
func CgroupsSeen(string) error                   { return ErrUnsupported }
func CgroupDirID(string) (uint64, error)         { return 0, ErrUnsupported }
func FileID(string) (dev, ino uint64, err error) { return 0, 0, ErrUnsupported }
func FileIDOf(os.FileInfo) (dev, ino uint64)     { return 0, 0 }
func MountsBelow(string) ([]string, error)       { return nil, ErrUnsupported }

func (p *Process) ExitStatus() (uint32, error) { return 0, ErrUnsupported }

// System names the operating system.
func System() string { return runtime.GOOS }

// CanNamespace reports that there are no PID namespaces.
func CanNamespace() error { return ErrUnsupported }

// PipeState is not available on this system.
func PipeState(*os.File) (int, bool, error) { return 0, false, ErrUnsupported }
