// Package reap collects the orphans that a program adopts, and never a child
// that somebody waits for.
//
// It is for a program that can't put a process above itself: it is PID 1 of a
// container, or a subreaper, and the libraries it uses start commands with
// os/exec and know nothing of it. Where a process above is possible, that is
// simpler and exact by construction: docs/reaping.md says which way is for
// whom.
//
//	r, err := reap.Begin(reap.Options{})
//	if err != nil {
//		…
//	}
//	defer r.Close()
//
// # What is collected
//
// A zombie child of this process goes if all of this holds:
//
//   - It is a child of the main thread. The kernel gives orphans to the first
//     live thread of who adopts them, and Go never ends its main thread. What
//     another thread forked is that thread's child, and is never touched while
//     the thread lives.
//   - No descriptor of this process is a handle of it. Since Linux 5.4 os/exec
//     has a pidfd of every child from its birth until its Wait has returned (or
//     the Cmd was released or forgotten), so a command is left for its Wait
//     however late that comes, even where the main thread forked it, or a thread
//     that has ended since and so left its children to the main one.
//   - It was not started by [Start], or its Wait has returned.
//   - It has been dead for Options.Patience.
//
// So os/exec needs no change in any dependency. [Start], [Wait] and [Run] are
// for kernels and sandboxes without process handles, see precondition 7.
//
// # Preconditions
//
// Begin checks these and returns an error that names the one that fails:
//
//  1. The system is Linux.
//  2. /proc is mounted, for the PID namespace this process is in.
//  3. The kernel has children lists (CONFIG_PROC_CHILDREN: every distribution's
//     has).
//  4. Orphans come to this process: it is PID 1 of its namespace or a
//     subreaper, or Options.Subreaper makes it one. Else [ErrNotAdopter].
//  5. SIGCHLD is not ignored, and not marked SA_NOCLDWAIT: the kernel would
//     collect every child itself, and each Wait in the program fail. Else
//     [ErrIgnored]. What was inherited is no matter, since Go's runtime installs
//     its own handler and unblocks the signal.
//  6. The main thread lives: Go never ends it, but a C program that Go is a
//     library of can.
//  7. os/exec has process handles. Before Linux 5.4, or where a sandbox forbids
//     pidfd_open, its commands can't be told from orphans if the main thread
//     or a thread that ended had forked them. Begin refuses then unless
//     Options.Patience is set. With it, whoever starts commands by [Start] is
//     safe, and whoever does not is if its Wait comes within Patience.
//  8. There is one reaper in the process. Else [ErrRunning].
//
// It can't check these:
//
//   - Nobody else in the process waits for any child, as wait4(-1) does.
//   - A child that is forked by neither os/exec nor os.StartProcess, such as by
//     syscall.ForkExec or by C code, has no handle. It is safe as long as the
//     thread that forked it lives and is not the main one; else only within
//     Options.Patience. A SysProcAttr.PidFD that is kept open until the wait
//     makes it as safe as a command.
//   - No thread has a descriptor table of its own (unshare with CLONE_FILES) in
//     which it starts commands.
//
// What an earlier program left in this process by exec, zombie or not, counts
// as adopted.
package reap
