// A small file system that is frozen for a while: a process that writes there
// waits in a state that KILL does not end. As root. Prints READY once frozen,
// THAWED at the end of -life or at TERM, and removes everything. A keeper in a
// session of its own does the removing, so that it happens even if the leader
// is killed. Announces keeper, leader.

package tree

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func init() { register("frozen-fs", frozenFS) }

// keeperSlack is what the keeper may take to unmount beyond the life it keeps.
const keeperSlack = 30 * time.Second

func frozenFS(p *proc) {
	dir := p.String("dir", "", "where to mount it; made if missing")
	kind := p.String("fs", "ext4", "ext4 or xfs")
	p.life = 8 * time.Second
	p.parseOnly()
	frozen := p.life
	p.life += keeperSlack
	p.arm(p.life)
	if *dir == "" {
		p.fail("-dir is missing")
	}
	if p.role == "keeper" {
		p.keepFrozen(*dir, frozen)
		return
	}

	term := p.on("TERM,INT,HUP")
	image := *dir + ".image"
	p.must(makeImage(image, *kind))
	r, w, err := os.Pipe()
	p.must(err)
	p.must(os.MkdirAll(*dir, 0o777))
	p.must(mountImage(image, *dir, *kind))
	keeper := p.spawn(child{prog: "frozen-fs", role: "keeper", session: true, life: frozen,
		files: []*os.File{r}, args: []string{"-dir", *dir}})
	r.Close()
	if err := freeze(*dir); err != nil {
		w.Close()
		keeper.Wait()
		p.fail("freeze: %v", err)
	}
	fmt.Println("READY")
	p.announce()
	select {
	case <-term:
	case <-time.After(frozen):
	}
	w.Close() // tells the keeper
	keeper.Wait()
	fmt.Println("THAWED")
}

// keepFrozen waits for the end of the leader, or of the time, and then undoes
// everything.
func (p *proc) keepFrozen(dir string, frozen time.Duration) {
	p.ignore("all")
	leader := os.NewFile(4, "leader")
	p.announce()
	over := make(chan struct{})
	go func() {
		io.Copy(io.Discard, leader)
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(frozen):
	}
	thaw(dir)
	unmount(dir)
	os.Remove(dir)
	os.Remove(dir + ".image")
}

func makeImage(image, kind string) error {
	mkfs, err := exec.LookPath("mkfs." + kind)
	if err != nil {
		return err
	}
	size := map[string]int64{"ext4": 16 << 20, "xfs": 320 << 20}[kind]
	if err := os.MkdirAll(filepath.Dir(image), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(image, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = f.Truncate(size) // sparse
	f.Close()
	if err == nil {
		var out []byte
		if out, err = exec.Command(mkfs, "-q", image).CombinedOutput(); err != nil {
			err = fmt.Errorf("%s: %w: %s", mkfs, err, out)
		}
	}
	if err != nil {
		os.Remove(image)
	}
	return err
}
