package proof

import "fmt"

// Identity is what is written down about one process so that it can be
// recognised later, by another process, after a crash.
//
// On Linux 6.14 and later FileHandle alone decides: it never recurs within a
// boot. The other fields serve older kernels, other systems, and people.
type Identity struct {
	PID  int `json:"pid"`
	PGID int `json:"pgid,omitempty"`
	SID  int `json:"sid,omitempty"`
	UID  int `json:"uid"`

	// Start is the start time in clock ticks since boot (Linux: field 22 of
	// /proc/PID/stat, 100 a second). It is no proof: a reused pid can have
	// the same tick.
	Start uint64 `json:"start_ticks,omitempty"`

	// Inode is the pidfs inode, from Linux 6.9 on.
	Inode uint64 `json:"pidfs_inode,omitempty"`

	// FileHandle is what name_to_handle_at gave for the process's pidfd, in
	// hexadecimal, with its type.
	FileHandle     string `json:"file_handle,omitempty"`
	FileHandleType int32  `json:"file_handle_type,omitempty"`

	// ExeDev and ExeIno name the file the process executes.
	ExeDev uint64 `json:"exe_dev,omitempty"`
	ExeIno uint64 `json:"exe_ino,omitempty"`
}

// IsZero reports whether nothing was recorded.
func (id Identity) IsZero() bool { return id == Identity{} }

// Valid returns an error for an identity that no process can have. A record
// with such an identity is malformed; it never reaches a system call.
func (id Identity) Valid() error {
	switch {
	case id.PID <= 1:
		return fmt.Errorf("pid %d: numbers up to 1 name a group, everybody or the init process, never a launch", id.PID)
	case id.PGID == 1:
		return fmt.Errorf("pgid %d: no process group of a launch", id.PGID)
	}
	return id.ValidOwner()
}

// ValidOwner is Valid for the identity of an owner, which is watched and never
// signalled: it may be the init process of a container, and in a group or
// session of whoever started that.
func (id Identity) ValidOwner() error {
	// PID_MAX_LIMIT is 4,194,304 on 64-bit Linux; other systems stay below.
	const pidMax = 1 << 22
	switch {
	case id.PID < 1:
		return fmt.Errorf("pid %d: names no process", id.PID)
	case id.PID > pidMax:
		return fmt.Errorf("pid %d: larger than any pid", id.PID)
	case id.PGID < 0 || id.PGID > pidMax:
		return fmt.Errorf("pgid %d: no process group of a launch", id.PGID)
	case id.SID < 0 || id.SID > pidMax:
		return fmt.Errorf("sid %d: no session of a launch", id.SID)
	case len(id.FileHandle) > 256:
		return fmt.Errorf("file handle of %d digits: longer than any", len(id.FileHandle))
	case id.FileHandle == "" && id.Inode == 0 && id.Start == 0:
		return fmt.Errorf("pid %d: a bare number without handle, inode or start time identifies nothing", id.PID)
	}
	return nil
}
