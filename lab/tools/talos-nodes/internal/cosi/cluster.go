package cosi

import (
	"fmt"
	"net/netip"
	"sort"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/siderolabs/talos/pkg/machinery/resources/cluster"
	"github.com/siderolabs/talos/pkg/machinery/resources/etcd"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

func sorted(of map[string]string) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}

	sort.Strings(names)

	return names
}

// identity is a node's ID as the discovery service knows it; the real one is random and 44 characters long.
func identity(n *fleet.Node) string { return "fake" + n.UUID }

func clusterResources(n *fleet.Node) []resource.Resource {
	var found []resource.Resource

	self := cluster.NewIdentity(cluster.NamespaceName, cluster.LocalIdentity)
	self.TypedSpec().NodeID = identity(n)

	info := cluster.NewInfo()
	info.TypedSpec().ClusterID = n.Config().Cluster().ID()
	info.TypedSpec().ClusterName = n.Config().Cluster().Name()

	found = append(found, self, info)

	if n.Config().Cluster().Discovery().Enabled() {
		for _, other := range n.Fleet().ClusterNodes(n.ClusterID()) {
			if other.Phase == fleet.Off || other.Phase == fleet.Installing {
				continue // it is not among the affiliates (any more)
			}

			found = append(found, member(other))
		}
	}

	if etcdOf, own := n.Etcd(); etcdOf != nil && own != nil && n.EtcdRunning() {
		local := etcd.NewMember(etcd.NamespaceName, etcd.LocalMemberID)
		local.TypedSpec().MemberID = etcd.FormatMemberID(own.ID)
		found = append(found, local)
	}

	return found
}

func member(n *fleet.Node) resource.Resource {
	member := cluster.NewMember(cluster.NamespaceName, n.Nodename())
	spec := member.TypedSpec()
	spec.NodeID, spec.Hostname = identity(n), n.Hostname()
	spec.MachineType = n.Config().Machine().Type()
	spec.OperatingSystem = fmt.Sprintf("Talos (%s)", n.Image.Version)

	if address, err := netip.ParseAddr(n.Spec.Address); err == nil {
		spec.Addresses = []netip.Addr{address}
	}

	if n.ControlPlane() {
		spec.ControlPlane = &cluster.ControlPlane{APIServerPort: n.Config().Cluster().LocalAPIServerPort()}
	}

	return member
}
