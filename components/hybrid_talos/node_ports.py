"""Ports of a Talos node that other nodes must reach."""

APID = 50000
"""Talos API (docs of Talos, "Network connectivity"); never open to the Internet."""
KUBELET = 10250
"""Kubelet API."""
FLANNEL = 4789
"""VXLAN of Flannel as Talos ships it (siderolabs/talos `.../controllers/k8s/internal/k8stemplates/flannel.go`)."""
CILIUM = 8472
"""VXLAN of Cilium (docs.cilium.io, "System Requirements")."""
