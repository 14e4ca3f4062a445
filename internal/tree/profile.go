// Three writers in one directory that end at different times, and until then
// make it again whenever it is gone. Announces quick, lingering, deaf, leader.

package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func init() { register("profile", profile) }

func profile(p *proc) {
	dir := p.String("dir", "", "the directory")
	linger := p.Duration("linger", 1500*time.Millisecond, "how long the second writer goes on after TERM")
	leader := p.String("leader", "stay", "stay, or exit once the writers are there")
	p.parse()
	if *dir == "" {
		p.fail("-dir is missing")
	}
	if p.role == "leader" {
		for _, role := range []string{"quick", "lingering", "deaf"} {
			p.spawn(child{prog: "profile", role: role, session: role == "deaf",
				args: []string{"-dir", *dir, "-linger", linger.String()}})
		}
		p.announce()
		if *leader == "exit" {
			return
		}
		p.park()
	}
	if p.role == "deaf" {
		p.ignore("all")
	}
	if p.role == "lingering" {
		term := p.on("TERM")
		go func() {
			<-term
			time.Sleep(*linger)
			quit(0)
		}()
	}
	p.must(writeOnce(*dir, p.role, 0))
	p.announce()
	for i := 1; ; i++ {
		time.Sleep(20 * time.Millisecond)
		writeOnce(*dir, p.role, i) // may race with a removal
	}
}

func writeOnce(dir, role string, i int) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	file := filepath.Join(dir, fmt.Sprintf("%s-%d", role, i%5))
	return os.WriteFile(file, fmt.Appendln(nil, role, i), 0o666)
}
