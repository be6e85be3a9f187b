package cosi

import (
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

func kubernetes(n *fleet.Node) []resource.Resource {
	name := k8s.NewNodename(k8s.NamespaceName, k8s.NodenameID)
	name.TypedSpec().Nodename = n.Nodename()

	kubelet := k8s.NewKubeletSpec(k8s.NamespaceName, k8s.KubeletID)
	kubelet.TypedSpec().Image = n.Config().Machine().Kubelet().Image()
	kubelet.TypedSpec().ExpectedNodename = n.Nodename()

	found := []resource.Resource{name, kubelet}

	if n.Fleet().KubernetesUp(n.ClusterID()) {
		status := k8s.NewNodeStatus(k8s.NamespaceName, n.Nodename())
		status.TypedSpec().Nodename, status.TypedSpec().NodeReady = n.Nodename(), n.NodeReady()
		found = append(found, status)
	}

	return found
}
