package custody_test

// A level that is required is had or refused, whoever made the command.

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/custody-project/custody"
)

func TestRequireOfAnExecCmd(t *testing.T) {
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	lead := exec.Command("sleep", "60")
	lead.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, lead.Start())
	defer func() { lead.Process.Kill(); lead.Wait() }()
	for what, c := range map[string]struct {
		attr syscall.SysProcAttr
		want custody.Level
	}{
		"another's group":    {syscall.SysProcAttr{Setpgid: true, Pgid: lead.Process.Pid, UseCgroupFD: true, CgroupFD: -1}, custody.LevelGroup},
		"a cgroup of theirs": {syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: -1}, custody.LevelCgroup},
	} {
		ran := filepath.Join(t.TempDir(), "ran")
		cmd := exec.Command("touch", ran)
		cmd.SysProcAttr = &c.attr
		l, err := o.Start(cmd, custody.Spec{Require: c.want})
		var le *custody.LevelError
		if !errors.As(err, &le) || le.Required != c.want {
			t.Errorf("%s: %v, %v", what, l, err)
		}
		if err == nil {
			cmd.Wait()
			t.Errorf("%s: level %s", what, l.Level())
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: user code ran", what)
		}
	}
	if len(o.Launches()) > 0 {
		t.Errorf("left: %v", o.Launches())
	}
}

func TestRecordedUserOfAnExecCmd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a command as another user")
	}
	dir := stateDir(t)
	o := openOwner(t, custody.Options{Dir: dir})
	cmd := exec.Command("/bin/sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4321, Gid: 4321}}
	l, err := o.Start(cmd, custody.Spec{})
	must(t, err)
	files, _ := filepath.Glob(filepath.Join(dir, "test", "*", l.ID().String()+".json"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	b, err := os.ReadFile(files[0])
	must(t, err)
	var rec struct{ UID int }
	must(t, json.Unmarshal(b, &rec))
	if rec.UID != 4321 {
		t.Errorf("recorded uid %d", rec.UID)
	}
	_, err = l.Kill(t.Context())
	must(t, err)
	cmd.Wait()
}
