package custody_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody"
)

// slow is a writer that takes its time for every write.
type slow struct {
	pause time.Duration
	strings.Builder
}

func (w *slow) Write(p []byte) (int, error) {
	time.Sleep(w.pause)
	return w.Builder.Write(p)
}

// What the command wrote before it ended is delivered, however long the writer
// takes; and so is what a descendant wrote that holds the output no more.
func TestSlowWriterGetsAll(t *testing.T) {
	o, err := custody.Open(t.Context(), "test", &custody.Options{Dir: stateDir(t)})
	must(t, err)
	defer o.Close()
	t.Run("writer", func(t *testing.T) { slowWriter(t, o) })
}

func slowWriter(t *testing.T, o *custody.Owner) {
	for name, script := range map[string]string{
		"leader":     "head -c 65000 /dev/zero",
		"descendant": "(sleep 0.3; head -c 65000 /dev/zero) &",
	} {
		for kind, kept := range map[string]bool{"direct": false, "kept": true} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				w := &slow{pause: 700 * time.Millisecond}
				c := o.Command("sh", "-c", script)
				c.Kept, c.Linger, c.Stdout = kept, true, w
				if err := c.Run(); w.Len() != 65000 || err != nil || c.OutputCut() {
					t.Errorf("%d bytes, %v, cut %v", w.Len(), err, c.OutputCut())
				}
			})
		}
	}
}

// One who holds the output and goes on writing is cut off all the same, after
// what the command itself wrote.
func TestChattyHolderIsCut(t *testing.T) {
	o, err := custody.Open(t.Context(), "test", &custody.Options{Dir: stateDir(t)})
	must(t, err)
	defer o.Close()
	w := &slow{pause: 300 * time.Millisecond}
	c := o.Command("sh", "-c", `head -c 65000 /dev/zero; (trap "" PIPE; for i in $(seq 600); do echo chatter; sleep 0.05; done) & echo "leader ends"`)
	c.Stdout, c.Linger = w, true
	c.Phases = []custody.Phase{{Signal: syscall.SIGKILL, Wait: 10 * time.Second}}
	began := time.Now()
	must(t, c.Run())
	if !strings.Contains(w.String(), "leader ends") || !c.OutputCut() {
		t.Errorf("%d bytes, cut %v", w.Len(), c.OutputCut())
	}
	if d := time.Since(began); d > 15*time.Second {
		t.Errorf("Wait took %v", d)
	}
	_, err = c.Launch().Stop(t.Context())
	must(t, err)
}
