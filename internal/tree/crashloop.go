// Workers that crash over and over. Each leaves a helper that nobody waits
// for, so that whoever adopts orphans gets a stream of dead ones. The leader
// goes on after the last. Announces leader first, then n times helper and
// worker.

package tree

import "time"

func init() { register("crash-loop", crashLoop) }

func crashLoop(p *proc) {
	n := p.Int("n", 20, "number of workers in all")
	width := p.Int("width", 2, "workers at a time")
	leaderLife := p.Duration("leader-life", time.Minute, "the life of the leader")
	p.life = 20 * time.Millisecond // of a worker, and of its helper after it
	p.parseOnly()
	each := p.life
	p.life = *leaderLife
	p.arm(p.life)
	p.announce()

	slots := make(chan struct{}, max(*width, 1))
	for i := range *n {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			end := []string{"-code", "3"}
			if i%2 == 1 {
				end = []string{"-signal", "SEGV"}
			}
			worker, ready := p.launch(child{prog: "exit", role: "worker", args: append(end,
				"-after", each.String(), "-helper-code", "9", "-helper-after", each.String())})
			worker.Wait()
			ready.Close()
		}()
	}
	p.park()
}
