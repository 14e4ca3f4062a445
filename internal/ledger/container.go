package ledger

import (
	"errors"
	"fmt"
	"net/url"
	"path"
)

// Container names the container of a launch that a container engine runs. It
// outlives its owner, the engine's own restart and a boot, so it is known by
// ids that none of these change.
type Container struct {
	Engine   string `json:"engine"`       // the engine's id
	Endpoint string `json:"endpoint"`     // of the engine's API: unix:///PATH
	ID       string `json:"id,omitempty"` // empty until the engine has told it
	Name     string `json:"name"`
	Image    string `json:"image"`
	Label    string `json:"label"` // LaunchLabel=launch id, set from birth
}

// ContainerLevel is the level of a launch that is a container. It stands
// beside the order of the others: the engine sees the tree, not we.
const ContainerLevel = "container"

// LaunchLabel is the label by which a container names its launch, also where
// the engine's answer was lost.
const LaunchLabel = "custody.launch"

func (r *Record) checkContainer() error {
	c := r.Container
	if c == nil {
		if r.Level == ContainerLevel {
			return errors.New("level container without a container")
		}
		return nil
	}
	u, err := url.Parse(c.Endpoint)
	switch {
	case r.Level != ContainerLevel:
		return fmt.Errorf("container at level %q", r.Level)
	case r.Leader != nil || r.Keeper != nil || r.Cgroup != nil || len(r.Members) > 0:
		return errors.New("container with processes of its own")
	case c.Engine == "" || len(c.Engine) > 4096:
		return errors.New("container without an engine")
	case err != nil || u.Scheme != "unix" || u.Host != "" || !path.IsAbs(u.Path):
		return fmt.Errorf("container: endpoint %.80q: want unix:///PATH", c.Endpoint)
	case c.ID != "" && !isContainerID(c.ID):
		return fmt.Errorf("container: id %.80q: want 64 hexadecimal digits", c.ID)
	case c.Name == "" || c.Image == "":
		return errors.New("container without a name or an image")
	case c.Label != LaunchLabel+"="+r.ID.String():
		return fmt.Errorf("container: label %.80q: does not name the launch", c.Label)
	}
	return nil
}

// isContainerID reports whether s has the form of a full container id: nothing
// shorter is ever asked for, since engines take a start of an id, or a name,
// for the id itself.
func isContainerID(s string) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}
