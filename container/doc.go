// Package container owns containers: what a container engine runs on behalf of
// an owner is recorded, proven, stopped and removed as a process tree is.
//
//	l, err := container.Start(ctx, owner, container.Spec{Image: "model-server", Name: "llama"})
//	…
//	exit, err := l.Exit(ctx)
//	res, err := l.Stop(ctx)
//
// A container is the launch's by three facts: the engine's id, the container's
// id, and a label with the launch's id that it has from birth. All three are
// asked for before each signal and before it is removed. A container of the
// same name that is not ours is never touched; neither is anything of an
// engine that was put in the place of the recorded one.
//
// The engine holds the exit status and the output, so a container that
// outlives its owner (OnOwnerDeath: custody.Survive) needs no keeper.
//
// Only the importers of this package carry an engine client. A program without
// it that meets the record of a container leaves both alone; 'custody sweep'
// has one. Where an owner serves as its own helper (custody.ServeHelper), its
// watchdog has one too.
//
// # Engines
//
// Docker from API 1.40 on (19.03), and Podman's compatible API, on a socket of
// this machine. Podman tells no id of its own: it is known by its host name and
// its storage directory, which is weaker, since the storage may be replaced.
package container
