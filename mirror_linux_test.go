package custody_test

// Cmd mirrors exec.Cmd: field by field and method by method, and what it does
// is what exec.Cmd does, direct and kept.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

// refused says which fields and methods of exec.Cmd are not mirrored, or have
// another type, and why.
var refused = map[string]string{
	"Process": "a Process of ours: its Signal and Kill go through a proven handle",
}

func TestCmdMirrorsExecCmd(t *testing.T) {
	theirs, ours := reflect.TypeFor[exec.Cmd](), reflect.TypeFor[custody.Cmd]()
	for i := range theirs.NumField() {
		f := theirs.Field(i)
		if !f.IsExported() {
			continue
		}
		g, ok := ours.FieldByName(f.Name)
		if refused[f.Name] == "" && (!ok || g.Type != f.Type) {
			t.Errorf("field %s %v is neither mirrored nor refused (%v)", f.Name, f.Type, g.Type)
		}
	}
	pt, po := reflect.TypeFor[*exec.Cmd](), reflect.TypeFor[*custody.Cmd]()
	for i := range pt.NumMethod() {
		m := pt.Method(i)
		n, ok := po.MethodByName(m.Name)
		if refused[m.Name] == "" && (!ok || signature(n) != signature(m)) {
			t.Errorf("method %s%s is neither mirrored nor refused", m.Name, signature(m))
		}
	}
	for i := range reflect.TypeFor[*os.Process]().NumMethod() {
		m := reflect.TypeFor[*os.Process]().Method(i)
		if m.Name != "Signal" && m.Name != "Kill" {
			continue // Wait and Release are the launch's
		}
		if n, ok := reflect.TypeFor[*custody.Process]().MethodByName(m.Name); !ok || signature(n) != signature(m) {
			t.Errorf("Process.%s", m.Name)
		}
	}
}

// signature leaves the receiver out.
func signature(m reflect.Method) string {
	s := "("
	for i := 1; i < m.Type.NumIn(); i++ {
		s += m.Type.In(i).String() + ","
	}
	s += ") "
	for i := range m.Type.NumOut() {
		s += m.Type.Out(i).String() + ","
	}
	return s
}

// command is what exec.Cmd and custody.Cmd have in common.
type command interface {
	Start() error
	Wait() error
	Run() error
	Output() ([]byte, error)
	CombinedOutput() ([]byte, error)
	StdinPipe() (io.WriteCloser, error)
	StdoutPipe() (io.ReadCloser, error)
	StderrPipe() (io.ReadCloser, error)
	Environ() []string
	String() string
}

func set(c command, field string, v any) {
	reflect.ValueOf(c).Elem().FieldByName(field).Set(reflect.ValueOf(v))
}

func get[T any](c command, field string) T {
	return reflect.ValueOf(c).Elem().FieldByName(field).Interface().(T)
}

// maker makes a command of one of the three kinds.
type maker func(ctx context.Context, name string, arg ...string) command

// same is what has to come out alike: one line of text.
var same = map[string]func(t *testing.T, mk maker) string{
	"output": func(t *testing.T, mk maker) string {
		b, err := mk(nil, "sh", "-c", "echo out; echo err >&2; exit 3").Output()
		var ee *exec.ExitError
		errors.As(err, &ee)
		return fmt.Sprintf("%q %s %q", b, told(err), ee.Stderr)
	},
	"combined": func(t *testing.T, mk maker) string {
		b, err := mk(nil, "sh", "-c", "echo out; echo err >&2").CombinedOutput()
		return fmt.Sprintf("%q %s", b, told(err))
	},
	"long errors": func(t *testing.T, mk maker) string {
		_, err := mk(nil, "sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x >&2; exit 1").Output()
		var ee *exec.ExitError
		errors.As(err, &ee)
		return fmt.Sprintf("%d %s", len(ee.Stderr), told(err))
	},
	"output twice set": func(t *testing.T, mk maker) string {
		c := mk(nil, "true")
		set(c, "Stdout", io.Discard)
		_, err := c.Output()
		_, err2 := c.CombinedOutput()
		_, err3 := c.StdoutPipe()
		return fmt.Sprint(err != nil, err2 != nil, err3 != nil)
	},
	"exit codes": func(t *testing.T, mk maker) string {
		s := ""
		for _, code := range []int{0, 1, 7, 125, 126, 127, 128, 137, 255} {
			c := mk(nil, "sh", "-c", fmt.Sprint("exit ", code))
			err := c.Run()
			s += fmt.Sprint(told(err), state(c), " ")
		}
		return s
	},
	"signals": func(t *testing.T, mk maker) string {
		s := ""
		for _, sig := range []string{"KILL", "TERM", "SEGV", "INT", "USR1", "ABRT"} {
			c := mk(nil, "sh", "-c", "ulimit -c 0; kill -"+sig+" $$")
			err := c.Run()
			s += fmt.Sprint(told(err), state(c), " ")
		}
		return s
	},
	"not found": func(t *testing.T, mk maker) string {
		err := mk(nil, "no-such-program-anywhere").Run()
		var ee *exec.Error
		return fmt.Sprint(err, errors.Is(err, exec.ErrNotFound), errors.As(err, &ee))
	},
	"no such file": func(t *testing.T, mk maker) string {
		err := mk(nil, "/no/such/program").Run()
		return fmt.Sprint(err, errors.Is(err, os.ErrNotExist))
	},
	"not executable": func(t *testing.T, mk maker) string {
		err := mk(nil, "/etc/hostname").Run()
		return fmt.Sprint(err, errors.Is(err, os.ErrPermission))
	},
	"a directory": func(t *testing.T, mk maker) string {
		err := mk(nil, "/etc").Run()
		return fmt.Sprint(err, errors.Is(err, os.ErrPermission))
	},
	"no such directory": func(t *testing.T, mk maker) string {
		c := mk(nil, "true")
		set(c, "Dir", "/no/such/dir")
		err := c.Run()
		return fmt.Sprint(err, errors.Is(err, os.ErrNotExist))
	},
	"directory": func(t *testing.T, mk maker) string {
		c := mk(nil, "sh", "-c", "pwd; echo $PWD")
		set(c, "Dir", "/usr")
		b, err := c.Output()
		return fmt.Sprintf("%q %s", b, told(err))
	},
	"environment": func(t *testing.T, mk maker) string {
		c := mk(nil, "sh", "-c", `echo "$A:$B:$C"; env | grep -v CUSTODY | grep -c .`)
		set(c, "Env", []string{"A=1", "B=2", "A=3", "PATH=" + os.Getenv("PATH")})
		b, err := c.Output()
		return fmt.Sprintf("%q %s %v", b, told(err), c.Environ())
	},
	"empty environment": func(t *testing.T, mk maker) string {
		c := mk(nil, "/usr/bin/env")
		set(c, "Env", []string{})
		b, err := c.Output()
		var rest []string
		for _, l := range strings.Split(string(b), "\n") {
			if !strings.HasPrefix(l, "CUSTODY_LAUNCH=") {
				rest = append(rest, l)
			}
		}
		return fmt.Sprintf("%q %s", rest, told(err))
	},
	"input reader": func(t *testing.T, mk maker) string {
		c := mk(nil, "cat")
		set(c, "Stdin", io.Reader(strings.NewReader(strings.Repeat("in", 100000))))
		b, err := c.Output()
		return fmt.Sprint(len(b), told(err))
	},
	"input not read": func(t *testing.T, mk maker) string {
		c := mk(nil, "true")
		set(c, "Stdin", io.Reader(strings.NewReader(strings.Repeat("in", 1000000))))
		return told(c.Run())
	},
	"input that fails": func(t *testing.T, mk maker) string {
		c := mk(nil, "cat")
		set(c, "Stdin", io.Reader(io.MultiReader(strings.NewReader("x"), failing{})))
		b, err := c.Output()
		return fmt.Sprintf("%q %v", b, err)
	},
	"output that fails": func(t *testing.T, mk maker) string {
		c := mk(nil, "echo", "x")
		set(c, "Stdout", io.Writer(failing{}))
		return fmt.Sprint(c.Run())
	},
	"no input": func(t *testing.T, mk maker) string {
		b, err := mk(nil, "sh", "-c", "cat; readlink /proc/self/fd/0").Output()
		return fmt.Sprintf("%q %s", b, told(err))
	},
	"no output": func(t *testing.T, mk maker) string {
		return told(mk(nil, "sh", "-c", `test "$(readlink /proc/$$/fd/1)" = /dev/null && test "$(readlink /proc/$$/fd/2)" = /dev/null`).Run())
	},
	"one writer for both": func(t *testing.T, mk maker) string {
		c := mk(nil, "sh", "-c", "for i in 1 2 3; do echo $i; echo $i >&2; done; readlink /proc/$$/fd/1 /proc/$$/fd/2 | uniq | wc -l")
		var b bytes.Buffer
		set(c, "Stdout", io.Writer(&b))
		set(c, "Stderr", io.Writer(&b))
		err := c.Run()
		return fmt.Sprintf("%q %s", b.String(), told(err))
	},
	"pipes": func(t *testing.T, mk maker) string {
		c := mk(nil, "sh", "-c", "read x; echo got $x; echo bad >&2; exit 4")
		in, err := c.StdinPipe()
		must(t, err)
		out, err := c.StdoutPipe()
		must(t, err)
		errw, err := c.StderrPipe()
		must(t, err)
		must(t, c.Start())
		fmt.Fprintln(in, "this")
		in.Close()
		a, e1 := io.ReadAll(out)
		b, e2 := io.ReadAll(errw)
		return fmt.Sprintf("%q %v %q %v %s", a, e1, b, e2, told(c.Wait()))
	},
	"pipe closed by wait": func(t *testing.T, mk maker) string {
		c := mk(nil, "true")
		in, err := c.StdinPipe()
		must(t, err)
		must(t, c.Start())
		s := told(c.Wait())
		_, err = in.Write([]byte("x"))
		return fmt.Sprint(s, err != nil, errors.Is(in.Close(), nil))
	},
	"pipe after start": func(t *testing.T, mk maker) string {
		c := mk(nil, "true")
		must(t, c.Start())
		_, e1 := c.StdinPipe()
		_, e2 := c.StdoutPipe()
		_, e3 := c.StderrPipe()
		return fmt.Sprint(e1 != nil, e2 != nil, e3 != nil, told(c.Wait()))
	},
	"files": func(t *testing.T, mk maker) string {
		path := filepath.Join(t.TempDir(), "f")
		f, err := os.Create(path)
		must(t, err)
		defer f.Close()
		g, err := os.Create(path + "2")
		must(t, err)
		defer g.Close()
		c := mk(nil, "sh", "-c", "echo out; echo three >&3; echo four >&4; exec ls /proc/self/fd")
		set(c, "Stdout", io.Writer(f))
		set(c, "ExtraFiles", []*os.File{g, g})
		err = c.Run()
		a, _ := os.ReadFile(path)
		b, _ := os.ReadFile(path + "2")
		return fmt.Sprintf("%q %q %s", a, b, told(err))
	},
	"start twice": func(t *testing.T, mk maker) string {
		c := mk(nil, "true")
		must(t, c.Start())
		err := c.Start()
		return fmt.Sprint(err != nil, told(c.Wait()), c.Wait() != nil)
	},
	"wait before start": func(t *testing.T, mk maker) string { return fmt.Sprint(mk(nil, "true").Wait() != nil) },
	"context done before": func(t *testing.T, mk maker) string {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return fmt.Sprint(mk(ctx, "true").Run())
	},
	"context done after": func(t *testing.T, mk maker) string {
		ctx, cancel := context.WithCancel(context.Background())
		c := mk(ctx, "true")
		must(t, c.Start())
		err := c.Wait()
		cancel()
		return fmt.Sprint(err, state(c))
	},
	"cancel is called": func(t *testing.T, mk maker) string {
		ctx, cancel := context.WithCancel(context.Background())
		c := mk(ctx, "sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.02; done")
		out, err := c.StdoutPipe()
		must(t, err)
		set(c, "Cancel", func() error { return signalLeader(c, syscall.SIGTERM) })
		must(t, c.Start())
		io.ReadFull(out, make([]byte, 3))
		cancel()
		err = c.Wait()
		return fmt.Sprint(told(err), state(c), errors.Is(err, context.Canceled))
	},
	"cancel says no": func(t *testing.T, mk maker) string {
		ctx, cancel := context.WithCancel(context.Background())
		c := mk(ctx, "sh", "-c", "echo up; read x; exit 0")
		in, err := c.StdinPipe()
		must(t, err)
		out, err := c.StdoutPipe()
		must(t, err)
		called := make(chan bool)
		set(c, "Cancel", func() error { defer close(called); return errors.New("not now") })
		must(t, c.Start())
		io.ReadFull(out, make([]byte, 3))
		cancel()
		<-called
		in.Close()
		return strings.TrimPrefix(strings.TrimPrefix(c.Wait().Error(), "exec: "), "custody: ")
	},
	"cancel finds it done": func(t *testing.T, mk maker) string {
		ctx, cancel := context.WithCancel(context.Background())
		c := mk(ctx, "sh", "-c", "echo up; read x; exit 0")
		in, err := c.StdinPipe()
		must(t, err)
		out, err := c.StdoutPipe()
		must(t, err)
		called := make(chan bool)
		set(c, "Cancel", func() error { defer close(called); return os.ErrProcessDone })
		must(t, c.Start())
		io.ReadFull(out, make([]byte, 3))
		cancel()
		<-called
		in.Close()
		return fmt.Sprint(c.Wait())
	},
	"wait delay kills": func(t *testing.T, mk maker) string {
		ctx, cancel := context.WithCancel(context.Background())
		c := mk(ctx, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done")
		out, err := c.StdoutPipe()
		must(t, err)
		set(c, "Cancel", func() error { return nil })
		set(c, "WaitDelay", 100*time.Millisecond)
		must(t, c.Start())
		io.ReadFull(out, make([]byte, 3))
		cancel()
		err = c.Wait()
		return fmt.Sprint(told(err), state(c))
	},
	"wait delay cuts output": func(t *testing.T, mk maker) string {
		c := mk(nil, "sh", "-c", "sleep 2 & exit 0")
		var b bytes.Buffer
		set(c, "Stdout", io.Writer(&b))
		set(c, "WaitDelay", 50*time.Millisecond)
		err := c.Run()
		// custody ends what is left of the tree, so the output may end in time.
		if _, ours := c.(*custody.Cmd); ours && err == nil {
			err = exec.ErrWaitDelay
		}
		return fmt.Sprint(err)
	},
	"process and state": func(t *testing.T, mk maker) string {
		c := mk(nil, "sh", "-c", "echo $$")
		var b bytes.Buffer
		set(c, "Stdout", io.Writer(&b))
		nilBefore := reflect.ValueOf(c).Elem().FieldByName("Process").IsNil() && get[*os.ProcessState](c, "ProcessState") == nil
		must(t, c.Start())
		pid := reflect.ValueOf(c).Elem().FieldByName("Process").Elem().FieldByName("Pid").Int()
		err := c.Wait()
		return fmt.Sprint(nilBefore, strings.TrimSpace(b.String()) == fmt.Sprint(pid), told(err), get[*os.ProcessState](c, "ProcessState") != nil)
	},
	"credential": func(t *testing.T, mk maker) string {
		if os.Geteuid() != 0 {
			return "only root may"
		}
		c := mk(nil, "id", "-u")
		set(c, "SysProcAttr", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
		b, err := c.Output()
		return fmt.Sprintf("%q %s", b, told(err))
	},
	"text": func(t *testing.T, mk maker) string {
		return mk(nil, "echo", "a b", "c").String() + mk(nil, "no-such-program-anywhere", "x").String()
	},
	"argument zero": func(t *testing.T, mk maker) string {
		c := mk(nil, "sh", "-c", `echo "$0"; tr '\0' ' ' < /proc/$$/cmdline`)
		args := get[[]string](c, "Args")
		args[0] = "another"
		b, err := c.Output()
		return fmt.Sprintf("%q %s", b, told(err))
	},
	"signal mask and dispositions": func(t *testing.T, mk maker) string {
		b, err := mk(nil, "grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status").Output()
		var blocked, ignored uint64
		if _, serr := fmt.Sscanf(string(b), "SigBlk: %x\nSigIgn: %x", &blocked, &ignored); serr != nil {
			return fmt.Sprintf("%q %v", b, serr)
		}
		// What we were started with ignored ourselves, as below nohup, goes on
		// to exec's children; ours begin with the default on purpose.
		return fmt.Sprintf("%x %x %s", blocked, ignored&^ignoredHere(), told(err))
	},
}

func ignoredHere() (mask uint64) {
	b, _ := os.ReadFile("/proc/self/status")
	if _, line, ok := strings.Cut(string(b), "\nSigIgn:"); ok {
		fmt.Sscanf(line, "%x", &mask)
	}
	return mask
}

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errors.New("the reader fails") }
func (failing) Write([]byte) (int, error) { return 0, errors.New("the writer fails") }

func signalLeader(c command, sig os.Signal) error {
	if x, ok := c.(*exec.Cmd); ok {
		return x.Process.Signal(sig)
	}
	return c.(*custody.Cmd).Process.Signal(sig)
}

// told is an error as its type and text.
func told(err error) string {
	var ee *exec.ExitError
	if errors.As(err, &ee) {
		return fmt.Sprintf("ExitError(%v)", ee)
	}
	return fmt.Sprint(err)
}

func state(c command) string {
	s := get[*os.ProcessState](c, "ProcessState")
	if s == nil {
		return "(no state)"
	}
	ws := s.Sys().(syscall.WaitStatus)
	return fmt.Sprintf("(%v %d %v %v)", s, s.ExitCode(), s.Success(), ws.Signaled())
}

func TestBehavesLikeExec(t *testing.T) {
	o, err := custody.Open(t.Context(), "test", &custody.Options{Dir: stateDir(t)})
	must(t, err)
	std := func(ctx context.Context, name string, arg ...string) command {
		if ctx == nil {
			return exec.Command(name, arg...)
		}
		return exec.CommandContext(ctx, name, arg...)
	}
	ours := func(kept bool) maker {
		return func(ctx context.Context, name string, arg ...string) command {
			c := o.Command(name, arg...)
			if ctx != nil {
				c = o.CommandContext(ctx, name, arg...)
			}
			c.Kept = kept
			return c
		}
	}
	for name, f := range same {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := f(t, std)
			for kind, mk := range map[string]maker{"direct": ours(false), "kept": ours(true)} {
				if got := f(t, mk); got != want {
					t.Errorf("%s:\n%s\nexec:\n%s", kind, got, want)
				}
			}
		})
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
}
