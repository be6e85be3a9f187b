"""The mesh's peers outside of the cluster: administrators' machines, and the files that they are handed."""

from dataclasses import replace

import pulumi
from hybrid_talos.allotment import allotted
from hybrid_talos.mesh_peers import MeshPeerArgs, MeshPeers, MeshPeersArgs

from .outputs import Outputs
from .providers import kubernetes_provider
from .settings import MeshSettings, Peer, Peers, Settings


def peer_address(peers: Peers, name: str, peer: Peer) -> str:
    """Return the address of a peer: the one written down, else one that follows from its name."""
    return str(peer.address or allotted(peers.cidr, 32, name).network_address)


def with_peers(settings: Settings, outputs: Outputs) -> Outputs:
    """Return a stack's outputs with the files of the mesh's peers; they join the cluster that the stack built."""
    mesh = settings.mesh
    if mesh is None or mesh.peers is None or not mesh.peers.machines or outputs.kubeconfig is None:
        return outputs
    args: MeshPeersArgs = {
        "cidr": str(mesh.peers.cidr),
        "peers": {name: _peer(mesh, name, peer) for name, peer in sorted(mesh.peers.machines.items())},
        "kubeconfig": outputs.kubeconfig,
        "granularity": mesh.granularity,
        "dns": [str(one) for one in mesh.peers.dns],
        "mtu": mesh.peers.mtu,
        "persistent_keepalive": mesh.persistent_keepalive or 20,
        "ready_minutes": settings.cluster.api_ready_minutes,
    }
    if mesh.peers.services:
        args["service_cidr"] = str(settings.cluster.service_cidr)
    if settings.cluster.endpoints.kubernetes is not None:
        args["connect_to"] = settings.cluster.endpoints.kubernetes
    provider = kubernetes_provider(settings.cluster.name, outputs.kubeconfig, "kubernetes-peers")
    made = MeshPeers("mesh-peers", args, pulumi.ResourceOptions(providers=[provider]))
    return replace(outputs, mesh_clients=made.client_files)


def _peer(mesh: MeshSettings, name: str, peer: Peer) -> MeshPeerArgs:
    assert mesh.peers is not None
    args: MeshPeerArgs = {"address": peer_address(mesh.peers, name, peer), "preshared": peer.preshared}
    if peer.public_key is not None:
        args["public_key"] = peer.public_key
    if peer.endpoint is not None:
        args["endpoint"] = peer.endpoint if ":" in peer.endpoint else f"{peer.endpoint}:{mesh.port}"
    if peer.routed_cidrs:
        args["routed_cidrs"] = [str(cidr) for cidr in peer.routed_cidrs]
    return args
