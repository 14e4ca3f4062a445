// Trees that keep files, locks and sockets, serve others, or own processes.

package tree

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProfile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profile")
	r := run(t, 4, "profile", "-dir", dir, "-linger", "300ms")
	quick, lingering, deaf := r.role("quick", 0), r.role("lingering", 0), r.role("deaf", 0)
	os.RemoveAll(dir)
	until(t, "the folder comes back", func() bool { _, err := os.Stat(dir); return err == nil })
	for _, p := range r.all {
		unix.Kill(p.PID, unix.SIGTERM) // uncollected children of the leader, and the leader
	}
	until(t, "the quick one ends", func() bool { return gone(quick.PID) })
	if gone(lingering.PID) {
		t.Error("the lingering one does not linger")
	}
	until(t, "the lingering one ends", func() bool { return gone(lingering.PID) })
	if gone(deaf.PID) || r.look(deaf).sid != deaf.PID {
		t.Error("the deaf one is not deaf and detached")
	}
}

func TestHolder(t *testing.T) {
	dir := t.TempDir()
	lock, sock := filepath.Join(dir, "lock"), filepath.Join(dir, "sock")
	cmd, file := command(t, "holder", "-setsid", "-ignore", "TERM", "-lock", lock,
		"-sock", sock, "-port", "0")
	out := &bytes.Buffer{}
	cmd.Stdout = out
	r := &running{t: t, cmd: cmd, file: file}
	r.start(2)
	r.cmd.Wait()
	var facts struct{ Port int }
	if err := json.Unmarshal(out.Bytes(), &facts); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	f, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != unix.EWOULDBLOCK {
		t.Error("the lock is free")
	}
	for network, addr := range map[string]string{
		"unix": sock, "tcp": net.JoinHostPort("127.0.0.1", strconv.Itoa(facts.Port))} {
		c, err := net.Dial(network, addr)
		if err != nil {
			t.Errorf("nobody listens: %v", err)
			continue
		}
		c.Close()
	}
}

func TestBroker(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "sock")
	log := sock + ".log"
	b := run(t, 1, "broker", "-sock", sock, "-log", log)
	client, file := command(t, "broker-client", "-sock", sock)
	out, _ := client.StdoutPipe()
	c := &running{t: t, cmd: client, file: file}
	c.start(1)
	var a reply
	if err := json.NewDecoder(out).Decode(&a); err != nil {
		t.Fatal(err)
	}
	b.all, _ = Wait(soon(t), b.file, 2)
	job := b.role("job", 0)
	if job.PID != a.PID || job.Start != a.Start || job.Inode != a.Inode {
		t.Errorf("job %v, answer %v", job, a)
	}
	client.Process.Kill()
	if now := b.look(job); now.ppid != b.role("leader", 0).PID || now.sid != job.PID {
		t.Errorf("job is %+v", now)
	}
	key := strconv.Itoa(a.PID) + ":" + strconv.FormatUint(a.Start, 10)
	stop, _ := command(t, "broker-client", "-sock", sock, "-stop", key)
	if err := stop.Run(); err != nil {
		t.Error(err)
	}
	until(t, "the job ends", func() bool { return gone(job.PID) })
	notes, _ := os.ReadFile(log)
	if !strings.HasPrefix(string(notes), "START ") || strings.Count(string(notes), "STOP") != 1 {
		t.Errorf("log %q", notes)
	}
}

func TestNest(t *testing.T) {
	record := filepath.Join(t.TempDir(), "record")
	r := run(t, 5, "nested-owner", "-file", record)
	inner := r.role("inner", 0)
	if now := r.look(inner); now.sid != inner.PID {
		t.Errorf("inner is %+v", now)
	}
	if r.look(r.role("orphan", 0)).ppid != inner.PID {
		t.Error("the orphan was not adopted")
	}
	if _, err := os.Stat(record); err != nil {
		t.Error(err)
	}
	unix.Kill(inner.PID, unix.SIGTERM) // the leader lives, but may collect it
	until(t, "all of the inner owner end", func() bool {
		return gone(inner.PID) && gone(r.role("orphan", 0).PID) && gone(r.role("worker", 0).PID)
	})
	if _, err := os.Stat(record); err == nil {
		t.Error("the record is still there")
	}
}
