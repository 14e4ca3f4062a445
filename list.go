package custody

import (
	"context"
	"sort"
	"time"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

// ListOptions say what List shows. The zero value is every scope of the
// default state directory.
type ListOptions struct {
	Dir            string
	Scope          string
	AllowNetworkFS bool
}

// OwnerInfo is what can be told of a launch's owner.
type OwnerInfo struct {
	ID    ID   `json:"id"`
	PID   int  `json:"pid"`
	Alive bool `json:"alive"`

	// Closed says that it ended in order, and left this on purpose.
	Closed bool `json:"closed,omitempty"`
}

// LaunchInfo is one launch as List shows it.
type LaunchInfo struct {
	ID           ID                `json:"id"`
	Scope        string            `json:"scope"`
	Name         string            `json:"name"`
	State        string            `json:"state"` // intent, running, stopping, exited, released, ended, gone, foreign, unsure
	Level        Level             `json:"level"`
	OnOwnerDeath OnOwnerDeath      `json:"on_owner_death"`
	Owner        OwnerInfo         `json:"owner"`
	PID          int               `json:"pid"`
	PGID         int               `json:"pgid"`
	StartedAt    time.Time         `json:"started_at"`
	Command      []string          `json:"command"`
	Labels       map[string]string `json:"labels"`
	Dirs         []string          `json:"dirs"`
	Ports        []int             `json:"ports"`     // reserved
	PIDs         []int             `json:"members"`   // pids of the proven members
	Members      []Member          `json:"processes"` // the same, with what is known of each

	Container *ContainerInfo `json:"container,omitempty"` // of a launch that is one

	KeeperPID int       `json:"keeper_pid,omitempty"`
	Exit      *Exit     `json:"exit,omitempty"` // the leader's end
	Log       *LogInfo  `json:"log,omitempty"`
	StopHook  *StopHook `json:"stop_hook"` // null: none, so what other services do for it is not ended with it
	Verdict   Verdict   `json:"verdict"`
	Reason    string    `json:"reason"`
	Suspects  []Member  `json:"suspects,omitempty"` // tied to the launch, but not proven
}

// Listing is what List found.
type Listing struct {
	Launches []LaunchInfo
	SetAside []SetAside
}

// List looks at every recorded launch and its members. It changes nothing. A
// missing state directory is an empty one.
func List(ctx context.Context, opt ListOptions) (Listing, error) {
	out := Listing{Launches: []LaunchInfo{}, SetAside: []SetAside{}}
	err := visit(ctx, opt, func(v visited) error {
		s, err := v.tree.Look(v.rec.Cgroup == nil || v.rec.UID == 0)
		if err != nil {
			return err
		}
		defer s.Close()
		out.Launches = append(out.Launches, launchInfo(v, s))
		return nil
	}, &out.SetAside)
	sort.Slice(out.Launches, func(i, j int) bool { return out.Launches[i].StartedAt.Before(out.Launches[j].StartedAt) })
	return out, err
}

func launchInfo(v visited, s *contain.Sighting) LaunchInfo {
	r := v.rec
	info := LaunchInfo{
		ID: r.ID, Scope: r.Scope, Name: r.Name, State: string(r.State), Level: Level(r.Level),
		OnOwnerDeath: OnOwnerDeath(r.OnOwnerDeath), StartedAt: r.StartedAt, Command: r.Command,
		Owner:  v.ownerInfo(),
		Labels: r.Labels, Dirs: []string{}, Ports: append([]int{}, r.Ports...), Members: members(s), Verdict: s.Verdict, Reason: s.Reason,
	}
	info.PIDs = make([]int, len(info.Members))
	for i, m := range info.Members {
		info.PIDs[i] = m.PID
	}
	info.Exit, info.Log, info.StopHook = exitOf(r.Exit), v.logInfo(), stopHook(r.StopHook)
	if info.Labels == nil {
		info.Labels = map[string]string{}
	}
	if r.Leader != nil {
		info.PID, info.PGID = r.Leader.PID, r.Leader.PGID
	}
	if r.Keeper != nil {
		info.KeeperPID = r.Keeper.PID
	}
	for _, a := range r.Assets {
		if r.State == ledger.Released {
			break // they went with it
		}
		info.Dirs = append(info.Dirs, asset.Inside(a))
	}
	if r.Container != nil {
		info.Container = containerInfo(r, s)
		if s.Verdict == proof.Owned && !s.Container.Live {
			info.State = string(ledger.Exited)
		}
	}
	if s.Verdict != proof.Owned && r.State != ledger.Released && r.State != ledger.Ended && !(s.Verdict == proof.Gone && v.maybeStarting()) {
		info.State = s.Verdict.String()
	}
	for _, p := range s.Suspects {
		info.Suspects = append(info.Suspects, Member{PID: p.PID, Comm: p.Comm, Command: []string{}, Proof: finding(p.Finding)})
	}
	return info
}
