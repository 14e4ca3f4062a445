// A service that starts work on request. The work is the broker's child, in a
// session of its own, and no part of the client's tree. Announces leader, then
// a job per request. The log gets START PID TICKS and STOP PID TICKS.

package tree

import (
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"sync"
)

func init() { register("broker", broker) }

// request and reply travel as JSON, one value each way and, after a start, a
// second reply when the job ends.
type request struct {
	Do    string `json:"do"`             // start or stop
	Name  string `json:"name,omitempty"` // of the job, as the client calls it
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"`
}

type reply struct {
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"`
	Inode uint64 `json:"inode,omitempty"`
	Ended bool   `json:"ended,omitempty"`
	Code  int    `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
}

type service struct {
	*proc
	log  string
	mu   sync.Mutex // of jobs, so that none is collected while it is signalled
	jobs map[request]*exec.Cmd
	name map[string]request
}

func broker(p *proc) {
	sock := p.String("sock", "", "unix socket to listen on")
	log := p.String("log", "", "file that gets a line per start and stop")
	p.parse()
	l, err := net.Listen("unix", *sock)
	p.must(err)
	s := &service{proc: p, log: *log, jobs: map[request]*exec.Cmd{}, name: map[string]request{}}
	p.announce()
	for {
		c, err := l.Accept()
		p.must(err)
		go s.serve(c)
	}
}

func (s *service) serve(c net.Conn) {
	defer c.Close()
	var r request
	if json.NewDecoder(c).Decode(&r) != nil {
		return
	}
	answer := json.NewEncoder(c)
	if r.Do == "stop" {
		key := request{PID: r.PID, Start: r.Start}
		if r.Name != "" {
			s.mu.Lock()
			key = s.name[r.Name]
			s.mu.Unlock()
		}
		answer.Encode(s.stopJob(key))
		return
	}
	job := s.spawn(child{role: "job", session: true})
	who := identityOf(job.Process.Pid)
	key := request{PID: who.PID, Start: who.Start}
	s.mu.Lock()
	s.jobs[key] = job
	if r.Name != "" {
		s.name[r.Name] = key
	}
	s.mu.Unlock()
	s.note("START", key)
	answer.Encode(reply{PID: who.PID, Start: who.Start, Inode: who.Inode})
	job.Wait() // the standard library keeps this apart from a signal
	s.mu.Lock()
	delete(s.jobs, key)
	s.mu.Unlock()
	answer.Encode(reply{PID: who.PID, Start: who.Start, Ended: true,
		Code: shellStatus(job.ProcessState)})
}

// stopJob ends a job, given by its exact identity.
func (s *service) stopJob(key request) reply {
	s.note("STOP", key)
	s.mu.Lock()
	defer s.mu.Unlock()
	job := s.jobs[key]
	if job == nil {
		return reply{Error: "no such job"}
	}
	if err := job.Process.Kill(); err != nil {
		return reply{Error: err.Error()}
	}
	return reply{PID: key.PID, Start: key.Start, Ended: true}
}

func (s *service) note(what string, key request) {
	if s.log != "" {
		s.must(appendLine(s.log, fmt.Sprintf("%s %d %d", what, key.PID, key.Start)))
	}
}
