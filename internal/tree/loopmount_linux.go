// Mounting an image through a loop device that goes away with the mount, and
// freezing what is mounted.

package tree

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	fiFreeze = 0xc0045877 // _IOWR('X', 119, int)
	fiThaw   = 0xc0045878 // _IOWR('X', 120, int)
)

// mountImage mounts an image, and removes it if that fails.
func mountImage(image, dir, kind string) (err error) {
	defer func() {
		if err != nil {
			os.Remove(dir)
			os.Remove(image)
		}
	}()
	file, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	for range 20 { // another may take the free device first
		var n int
		n, err = unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("/dev/loop%d", n)
		var loop *os.File
		if loop, err = os.OpenFile(name, os.O_RDWR, 0); err != nil {
			return err
		}
		conf := unix.LoopConfig{Fd: uint32(file.Fd())}
		conf.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		if err = unix.IoctlLoopConfigure(int(loop.Fd()), &conf); err == nil {
			// The mount keeps the device from here on.
			err = unix.Mount(name, dir, kind, unix.MS_NOATIME|unix.MS_NODEV|unix.MS_NOSUID, "")
			loop.Close()
			return err
		}
		loop.Close()
	}
	return err
}

func freeze(dir string) error { return ioctlDir(dir, fiFreeze) }
func thaw(dir string) error   { return ioctlDir(dir, fiThaw) }

func ioctlDir(dir string, request uint) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.IoctlRetInt(fd, request)
	return err
}

// unmount waits a while for those who still use the mount, then takes it out
// of sight.
func unmount(dir string) {
	for range 100 {
		if unix.Unmount(dir, 0) == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	unix.Unmount(dir, unix.MNT_DETACH)
}
