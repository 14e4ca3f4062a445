// Package unittest gives tests a D-Bus of their own (dbus-daemon) with a
// service manager and a login manager on it that answer what they are told to.
package unittest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

const config = `<busconfig>
<type>session</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>`

// Bus starts a dbus-daemon for one test and returns its address.
func Bus(t testing.TB) string {
	t.Helper()
	exe, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Fatal(err, "(Debian's package is dbus)")
	}
	dir, err := os.MkdirTemp("", "bus") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket, conf := filepath.Join(dir, "s"), filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, []byte(fmt.Sprintf(config, socket)), 0o600); err != nil {
		t.Fatal(err)
	}
	// It is not to outlive a test binary that is killed.
	c := exec.Command("timeout", "300", exe, "--config-file="+conf, "--nofork", "--nopidfile", "--nosyslog")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Signal(syscall.SIGTERM); c.Wait() })
	address := "unix:path=" + socket
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := dbus.Connect(address)
		if err == nil {
			conn.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatal("dbus-daemon: ", err)
		}
	}
}

// Stub listens where a bus would, and says nothing to anybody.
func Stub(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "unix:path=" + filepath.Join(dir, "s")
}
