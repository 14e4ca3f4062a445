package host

import "golang.org/x/sys/unix"

// System names the operating system and its version.
func System() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "Linux"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}
