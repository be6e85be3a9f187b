package cosi

import (
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/siderolabs/talos/pkg/machinery/resources/block"
	"github.com/siderolabs/talos/pkg/machinery/resources/cluster"
	"github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/cri"
	"github.com/siderolabs/talos/pkg/machinery/resources/etcd"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"github.com/siderolabs/talos/pkg/machinery/resources/kubespan"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"github.com/siderolabs/talos/pkg/machinery/resources/secrets"
	"github.com/siderolabs/talos/pkg/machinery/resources/time"
	"github.com/siderolabs/talos/pkg/machinery/resources/v1alpha1"
)

var namespaceNames = map[string]string{
	v1alpha1.NamespaceName:        "Talos v1alpha1 subsystems glue resources.",
	cluster.NamespaceName:         "Cluster configuration and discovery resources.",
	config.NamespaceName:          "Talos node configuration.",
	etcd.NamespaceName:            "etcd resources.",
	hardware.NamespaceName:        "Hardware resources.",
	k8s.NamespaceName:             "Kubernetes all node types resources.",
	k8s.ControlPlaneNamespaceName: "Kubernetes control plane resources.",
	kubespan.NamespaceName:        "KubeSpan resources.",
	network.NamespaceName:         "Networking resources.",
	network.ConfigNamespaceName:   "Networking configuration resources.",
	cri.NamespaceName:             "CRI Seccomp resources.",
	secrets.NamespaceName:         "Resources with secret material.",
}

// definitions are the types of resources that clients may ask for: those that the nodes have, or those of which Talos
// has some and the fake nodes none. A look at the latter stands in the log.
func definitions(served bool) []meta.ResourceWithRD {
	if served {
		return []meta.ResourceWithRD{
			&block.Disk{}, &block.SystemDisk{}, &block.VolumeStatus{},
			&cluster.Identity{}, &cluster.Info{}, &cluster.Member{},
			&config.MachineConfig{}, &config.MachineType{},
			&etcd.Member{},
			&hardware.SystemInformation{},
			&k8s.APIServerConfig{}, &k8s.BootstrapManifestsConfig{}, &k8s.ControllerManagerConfig{}, &k8s.KubeletSpec{},
			&k8s.Manifest{}, &k8s.Nodename{}, &k8s.NodeStatus{}, &k8s.SchedulerConfig{}, &k8s.StaticPod{}, &k8s.StaticPodStatus{},
			&network.AddressStatus{}, &network.HostnameStatus{}, &network.LinkStatus{}, &network.NodeAddress{}, &network.Status{},
			&runtime.Diagnostic{}, &runtime.ExtensionStatus{}, &runtime.MachineStatus{}, &runtime.MetaKey{},
			&runtime.PlatformMetadata{}, &runtime.SecurityState{}, &runtime.Version{},
			&secrets.KubernetesRoot{}, &secrets.OSRoot{},
			&time.Status{},
			&v1alpha1.Service{},
		}
	}

	return []meta.ResourceWithRD{
		&block.Device{}, &block.DiscoveredVolume{}, &block.MountStatus{}, &block.VolumeConfig{},
		&cluster.Affiliate{}, &cluster.Config{},
		&cri.RegistriesConfig{},
		&etcd.Config{}, &etcd.PKIStatus{}, &etcd.Spec{},
		&hardware.MemoryModule{}, &hardware.PCIDevice{}, &hardware.Processor{},
		&k8s.AdmissionControlConfig{}, &k8s.AuditPolicyConfig{}, &k8s.AuthorizationConfig{},
		&k8s.ConfigStatus{}, &k8s.Endpoint{}, &k8s.ExtraManifestsConfig{},
		&k8s.KubeletConfig{}, &k8s.ManifestStatus{}, &k8s.NodeIP{},
		&k8s.SecretsStatus{},
		&kubespan.Config{}, &kubespan.Endpoint{}, &kubespan.Identity{}, &kubespan.PeerSpec{}, &kubespan.PeerStatus{},
		&network.AddressSpec{}, &network.HostnameSpec{}, &network.LinkSpec{}, &network.OperatorSpec{},
		&network.ResolverStatus{}, &network.RouteStatus{}, &network.TimeServerStatus{},
		&runtime.BootedEntry{}, &runtime.KernelCmdline{}, &runtime.KernelModuleSpec{}, &runtime.KernelParamStatus{},
		&runtime.MountStatus{},
		&secrets.API{}, &secrets.CertSAN{}, &secrets.Etcd{}, &secrets.EtcdRoot{}, &secrets.Kubelet{}, &secrets.Kubernetes{},
		&secrets.KubernetesDynamicCerts{}, &secrets.Trustd{},
	}
}
