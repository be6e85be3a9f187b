package control

import (
	"fmt"
	"sort"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// NodeView is a node as tests see it: no secrets.
type NodeView struct {
	Name      string            `json:"name"`
	Address   string            `json:"address"`
	Endpoint  string            `json:"endpoint"`
	Phase     fleet.Phase       `json:"phase"`
	Stage     string            `json:"stage"`
	Ready     bool              `json:"ready"`
	Unmet     map[string]string `json:"unmet"`
	Online    bool              `json:"online"`
	Role      string            `json:"role"`
	Hostname  string            `json:"hostname"`
	Cluster   string            `json:"cluster"`
	Config    string            `json:"config"`
	Persisted string            `json:"persisted"`
	BootID    string            `json:"bootID"`
	UUID      string            `json:"uuid"`
	Installed bool              `json:"installed"`
	Talos     string            `json:"talos"`
	Image     string            `json:"image"`
	Schematic string            `json:"schematic"`
	Kubelet   string            `json:"kubelet"`
	Etcd      string            `json:"etcd"`
	Member    string            `json:"member"`
	EtcdState string            `json:"etcdState"`
	Pulled    []string          `json:"pulled"`
	Meta      map[string]string `json:"meta"`
	Trouble   fleet.Trouble     `json:"trouble"`
	Counts    fleet.Counts      `json:"counts"`
}

// Nodes returns every node.
func Nodes(f *fleet.Fleet) []NodeView {
	views := []NodeView{}

	f.Do(func() {
		for _, node := range f.Nodes {
			views = append(views, view(node))
		}
	})

	return views
}

func view(n *fleet.Node) NodeView {
	stage, unmet := n.Stage()
	v := NodeView{
		Name: n.Spec.Name, Address: n.Spec.Address, Endpoint: n.Spec.Listen, Phase: n.Phase, Stage: stage.String(),
		Ready: n.Phase == fleet.Running && n.Booted && len(unmet) == 0, Unmet: unmet, Online: n.Online(),
		Hostname: n.Hostname(), Cluster: n.ClusterID(), Config: fleet.Digest(n.Active), Persisted: fleet.Digest(n.Persisted),
		BootID: n.BootID, UUID: n.UUID, Installed: n.Installed, Talos: n.Image.Version, Image: n.Image.Ref,
		Schematic: n.Image.Schematic, Pulled: []string{}, Meta: map[string]string{}, Trouble: n.Trouble, Counts: n.Counts,
	}

	if n.Configured() {
		v.Role = "worker"
		v.Kubelet = n.Config().Machine().Kubelet().Image()

		if n.ControlPlane() {
			v.Role = "controlplane"
		}
	}

	if service := n.Services["etcd"]; service != nil {
		v.EtcdState = service.State
	}

	if n.Data != nil {
		v.Etcd, v.Member = n.Data.Etcd, fmt.Sprintf("%016x", n.Data.Member)
	}

	for ref := range n.Pulled {
		v.Pulled = append(v.Pulled, ref)
	}

	sort.Strings(v.Pulled)

	for key, value := range n.Meta {
		v.Meta[key] = value
	}

	return v
}

// MemberView is an etcd member as tests see it.
type MemberView struct {
	ID      string `json:"id"`
	Node    string `json:"node"`
	Name    string `json:"name"`
	Learner bool   `json:"learner"`
	Leader  bool   `json:"leader"`
}

// EtcdView is an etcd cluster as tests see it.
type EtcdView struct {
	ID      string       `json:"id"`
	Cluster string       `json:"cluster"`
	From    string       `json:"from"`
	Quorum  bool         `json:"quorum"`
	Members []MemberView `json:"members"`
}

func etcds(f *fleet.Fleet) []EtcdView {
	views := []EtcdView{}

	f.Do(func() {
		for _, etcd := range f.Etcds {
			v := EtcdView{ID: etcd.ID, Cluster: etcd.Cluster, From: etcd.From, Quorum: f.Quorum(etcd), Members: []MemberView{}}

			for _, member := range etcd.Members {
				v.Members = append(v.Members, MemberView{
					ID: fmt.Sprintf("%016x", member.ID), Node: member.Node, Name: member.Name, Learner: member.Learner,
					Leader: member.ID == etcd.Leader,
				})
			}

			views = append(views, v)
		}

		sort.Slice(views, func(i, j int) bool { return f.Etcds[views[i].ID].Born.Before(f.Etcds[views[j].ID].Born) })
	})

	return views
}
