package helper

import (
	"fmt"
	"syscall"
)

// Attr is the part of a syscall.SysProcAttr that can travel to a keeper.
type Attr struct {
	Chroot      []byte                 `json:"chroot,omitempty"`
	Credential  *syscall.Credential    `json:"credential,omitempty"`
	Setsid      bool                   `json:"setsid,omitempty"`
	Setpgid     bool                   `json:"setpgid,omitempty"`
	Setctty     bool                   `json:"setctty,omitempty"`
	Noctty      bool                   `json:"noctty,omitempty"`
	Ctty        int                    `json:"ctty,omitempty"`
	Pdeathsig   syscall.Signal         `json:"pdeathsig,omitempty"`
	Cloneflags  uintptr                `json:"cloneflags,omitempty"`
	Unshare     uintptr                `json:"unshareflags,omitempty"`
	UIDs        []syscall.SysProcIDMap `json:"uid_mappings,omitempty"`
	GIDs        []syscall.SysProcIDMap `json:"gid_mappings,omitempty"`
	Setgroups   bool                   `json:"setgroups,omitempty"`
	AmbientCaps []uintptr              `json:"ambient_caps,omitempty"`
}

// AttrOf takes over what a user asked for; what can't be kept is an error.
func AttrOf(a *syscall.SysProcAttr) (Attr, error) {
	if a == nil {
		return Attr{Setsid: true}, nil
	}
	no := func(field string) (Attr, error) {
		return Attr{}, fmt.Errorf("SysProcAttr.%s: not possible for a kept launch, whose keeper forks it; start it directly", field)
	}
	switch {
	case a.Ptrace:
		return no("Ptrace")
	case a.Foreground:
		return no("Foreground")
	case a.Pgid != 0:
		return no("Pgid")
	case a.UseCgroupFD:
		return no("UseCgroupFD")
	case a.PidFD != nil:
		return no("PidFD")
	}
	return Attr{
		Chroot: []byte(a.Chroot), Credential: a.Credential,
		Setsid: a.Setsid || !a.Setpgid, Setpgid: a.Setpgid && !a.Setsid,
		Setctty: a.Setctty, Noctty: a.Noctty, Ctty: a.Ctty, Pdeathsig: a.Pdeathsig,
		Cloneflags: a.Cloneflags, Unshare: a.Unshareflags,
		UIDs: a.UidMappings, GIDs: a.GidMappings, Setgroups: a.GidMappingsEnableSetgroups,
		AmbientCaps: a.AmbientCaps,
	}, nil
}

func (a Attr) sys() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Chroot: string(a.Chroot), Credential: a.Credential, Setsid: a.Setsid, Setpgid: a.Setpgid,
		Setctty: a.Setctty, Noctty: a.Noctty, Ctty: a.Ctty, Pdeathsig: a.Pdeathsig,
		Cloneflags: a.Cloneflags, Unshareflags: a.Unshare,
		UidMappings: a.UIDs, GidMappings: a.GIDs, GidMappingsEnableSetgroups: a.Setgroups,
		AmbientCaps: a.AmbientCaps,
	}
}

// OnTerminal is a for a leader that stays in our session, in a group of its
// own.
func (a Attr) OnTerminal() Attr {
	a.Setsid, a.Setpgid = false, true
	return a
}
