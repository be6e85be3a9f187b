package cosi

import (
	"fmt"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/manifests"
)

func kubernetes(n *fleet.Node) []resource.Resource {
	name := k8s.NewNodename(k8s.NamespaceName, k8s.NodenameID)
	name.TypedSpec().Nodename = n.Nodename()

	kubelet := k8s.NewKubeletSpec(k8s.NamespaceName, k8s.KubeletID)
	kubelet.TypedSpec().Image = n.Config().Machine().Kubelet().Image()
	kubelet.TypedSpec().ExpectedNodename = n.Nodename()
	kubelet.TypedSpec().Args = []string{"--hostname-override=" + n.Nodename()}

	found := []resource.Resource{name, kubelet}

	if n.Fleet().KubernetesUp(n.ClusterID()) {
		status := k8s.NewNodeStatus(k8s.NamespaceName, n.Nodename())
		status.TypedSpec().Nodename, status.TypedSpec().NodeReady = n.Nodename(), n.NodeReady()
		found = append(found, status)
	}

	if n.ControlPlane() {
		found = append(found, controlPlane(n.Config().Cluster())...)
		found = append(found, staticPods(n)...)
		found = append(found, bootstrapManifests(n)...)
	}

	return found
}

func arguments(of map[string][]string) map[string]k8s.ArgValues {
	all := make(map[string]k8s.ArgValues, len(of))
	for name, values := range of {
		all[name] = k8s.ArgValues{Values: values}
	}

	return all
}

func controlPlane(cluster config.ClusterConfig) []resource.Resource {
	api := k8s.NewAPIServerConfig()
	api.TypedSpec().Image = cluster.APIServer().Image()
	api.TypedSpec().ControlPlaneEndpoint = cluster.Endpoint().String()
	api.TypedSpec().LocalPort = cluster.LocalAPIServerPort()
	api.TypedSpec().ServiceCIDRs = cluster.Network().ServiceCIDRs()
	api.TypedSpec().ExtraArgs = arguments(cluster.APIServer().ExtraArgs())

	manager := k8s.NewControllerManagerConfig()
	manager.TypedSpec().Enabled = true
	manager.TypedSpec().Image = cluster.ControllerManager().Image()
	manager.TypedSpec().PodCIDRs = cluster.Network().PodCIDRs()
	manager.TypedSpec().ServiceCIDRs = cluster.Network().ServiceCIDRs()
	manager.TypedSpec().ExtraArgs = arguments(cluster.ControllerManager().ExtraArgs())

	scheduler := k8s.NewSchedulerConfig()
	scheduler.TypedSpec().Enabled = true
	scheduler.TypedSpec().Image = cluster.Scheduler().Image()
	scheduler.TypedSpec().ExtraArgs = arguments(cluster.Scheduler().ExtraArgs())

	bootstrap := k8s.NewBootstrapManifestsConfig()
	bootstrap.TypedSpec().Server = cluster.Endpoint().String()
	bootstrap.TypedSpec().ClusterDomain = cluster.Network().DNSDomain()
	bootstrap.TypedSpec().PodCIDRs = cluster.Network().PodCIDRs()
	bootstrap.TypedSpec().ProxyEnabled = cluster.Proxy().Enabled()
	bootstrap.TypedSpec().ProxyImage = cluster.Proxy().Image()
	bootstrap.TypedSpec().CoreDNSEnabled = cluster.CoreDNS().Enabled()
	bootstrap.TypedSpec().CoreDNSImage = cluster.CoreDNS().Image()
	bootstrap.TypedSpec().CNIName = cluster.Network().CNI().Name()
	bootstrap.TypedSpec().FlannelEnabled = cluster.Network().CNI().Name() == "flannel"

	return []resource.Resource{api, manager, scheduler, bootstrap}
}

func staticPods(n *fleet.Node) []resource.Resource {
	var found []resource.Resource

	for _, name := range fleet.Components() {
		pod := k8s.NewStaticPod(k8s.NamespaceName, name)
		pod.TypedSpec().Pod = manifests.StaticPod(n, name, n.Component(name))
		found = append(found, pod)

		if running, ok := n.Running(name); ok {
			status := k8s.NewStaticPodStatus(k8s.NamespaceName, fmt.Sprintf("kube-system/%s-%s", name, n.Nodename()))
			status.TypedSpec().PodStatus = manifests.PodStatus(n, name, running.Image)
			found = append(found, status)
		}
	}

	return found
}

func bootstrapManifests(n *fleet.Node) []resource.Resource {
	var found []resource.Resource

	for _, file := range manifests.Bootstrap(n.Config().Cluster()) {
		manifest := k8s.NewManifest(k8s.ControlPlaneNamespaceName, file.Name)
		for _, object := range file.Objects {
			manifest.TypedSpec().Items = append(manifest.TypedSpec().Items, k8s.SingleManifest{Object: object})
		}

		found = append(found, manifest)
	}

	return found
}
