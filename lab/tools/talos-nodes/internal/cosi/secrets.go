package cosi

import (
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/siderolabs/talos/pkg/machinery/resources/secrets"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// roots are the authorities of a control plane, which `talosctl rotate-ca` reads.
func roots(n *fleet.Node) []resource.Resource {
	security, cluster := n.Config().Machine().Security(), n.Config().Cluster()

	os := secrets.NewOSRoot(secrets.OSRootID)
	os.TypedSpec().IssuingCA = security.IssuingCA()
	os.TypedSpec().AcceptedCAs = security.AcceptedCAs()
	os.TypedSpec().CertSANDNSNames = []string{n.Hostname()}
	os.TypedSpec().Token = security.Token()

	for _, prefix := range n.Addresses() {
		os.TypedSpec().CertSANIPs = append(os.TypedSpec().CertSANIPs, prefix.Addr())
	}

	if !n.ControlPlane() {
		return []resource.Resource{os}
	}

	kubernetes := secrets.NewKubernetesRoot(secrets.KubernetesRootID)
	spec := kubernetes.TypedSpec()
	spec.Name, spec.Endpoint = cluster.Name(), cluster.Endpoint()
	spec.CertSANs, spec.DNSDomain = cluster.CertSANs(), cluster.Network().DNSDomain()
	spec.IssuingCA, spec.AcceptedCAs = cluster.IssuingCA(), cluster.AcceptedCAs()
	spec.ServiceAccount, spec.AggregatorCA = cluster.ServiceAccount(), cluster.AggregatorCA()
	spec.AESCBCEncryptionSecret, spec.SecretboxEncryptionSecret = cluster.AESCBCEncryptionSecret(), cluster.SecretboxEncryptionSecret()
	spec.BootstrapTokenID, spec.BootstrapTokenSecret = cluster.Token().ID(), cluster.Token().Secret()

	return []resource.Resource{os, kubernetes}
}
