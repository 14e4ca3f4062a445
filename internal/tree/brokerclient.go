// A client whose work runs under a broker: killing the client does not end the
// work. Prints the broker's answers, one JSON value a line. Announces leader
// once the work runs.

package tree

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
)

func init() { register("broker-client", brokerClient) }

func brokerClient(p *proc) {
	sock := p.String("sock", "", "unix socket of the broker")
	stop := p.String("stop", "", "PID:TICKS of a job to stop, instead of starting one")
	name := p.String("name", "", "name for the job, by which it can be stopped too")
	stopName := p.String("stop-name", "", "name of a job to stop, instead of starting one")
	p.parse()
	r := request{Do: "start", Name: *name}
	if *stopName != "" {
		r = request{Do: "stop", Name: *stopName}
	}
	if *stop != "" {
		r.Do = "stop"
		if _, err := fmt.Sscanf(*stop, "%d:%d", &r.PID, &r.Start); err != nil {
			p.fail("-stop %q: %v", *stop, err)
		}
	}
	c, err := net.Dial("unix", *sock)
	p.must(err)
	p.must(json.NewEncoder(c).Encode(r))
	answers, out := json.NewDecoder(c), json.NewEncoder(os.Stdout)
	for announced := false; ; {
		var a reply
		if err := answers.Decode(&a); err != nil {
			p.fail("the broker is gone: %v", err)
		}
		out.Encode(a)
		if a.Error != "" {
			quit(exitFailed)
		}
		if a.Ended {
			quit(a.Code)
		}
		if !announced {
			announced = true
			p.announce()
		}
	}
}
