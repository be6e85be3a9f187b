"""What Kilo's agents write on the Nodes of a cluster, where no container runs: squat/kilo `pkg/k8s/backend.go`, Set."""

import base64

from kubernetes_cluster import Api

KEYS = {name: base64.b64encode(bytes([number]) * 32).decode() for number, name in enumerate(("cp-1", "worker-1"), 1)}


def describe_nodes(api: Api) -> None:
    """Write on each Node what its agent would."""
    for number, (name, key) in enumerate(KEYS.items(), 1):
        said = {
            "endpoint": f"192.0.2.{number}:51820",
            "internal-ip": f"192.0.2.{number}/24",
            "key": key,
            "wireguard-ip": f"10.4.0.{number}/16",
        }
        annotations = {f"kilo.squat.ai/{word}": text for word, text in said.items()}
        node = api.get(f"/api/v1/nodes/{name}")
        # Nobody may change it once it is there: in a cluster kube-controller-manager has given it.
        spec = {} if node["spec"].get("podCIDR") else {"podCIDR": f"10.244.{number}.0/24"}
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"annotations": annotations}, "spec": spec})
