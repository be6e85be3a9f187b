"""What would keep a planned mesh from working. Pure."""

from .address_plan import Claim, conflicts, reserved
from .cni import Cni
from .mesh_plan import KUBESPAN_PORT, PAIRS, WIREGUARD_OVERHEAD, Granularity, MeshPlan, outermost

_WHY_NOT = {
    Cni.FLANNEL: "Kilo's Flannel mode carries pods only between machines that are peers themselves",
    Cni.CILIUM: "Kilo's Cilium mode is made for one leader for each location",
}


def problems(plan: MeshPlan) -> list[str]:
    """Return everything that would keep this mesh from working."""
    found = _range_problems(plan) + _path_problems(plan)
    if plan.kilo:
        found += _kilo_problems(plan)
    else:
        found += _kubespan_problems(plan)
    nat = [place.name for place in plan.places if not plan.every_peer_reachable(place)]
    if len(nat) > 1:
        found.append(
            f"locations {', '.join(nat)} have machines that nobody outside can reach, so these never meet: give "
            "all but one of the locations public addresses for its machines"
            + (", or a public_endpoint with granularity location" if plan.kilo else "")
        )
    return found


def _range_problems(plan: MeshPlan) -> list[str]:
    claims = reserved(("aliyun", "azure"))
    claims += [Claim("pods", plan.pod_cidr), Claim("services", plan.service_cidr)]
    if plan.kilo:
        claims.append(Claim("mesh", plan.cidr))
    if plan.peers is not None:
        claims.append(Claim("peers", plan.peers))
    for place in plan.places:
        claims += [Claim(f"location {place.name}", network) for network in outermost([*place.cidrs, *place.exposed])]
    return [str(conflict) for conflict in conflicts(claims)]


def _path_problems(plan: MeshPlan) -> list[str]:
    if plan.mtu is None:
        return []
    return [
        f"mtu: {plan.mtu} is more than the path of location {place.name} carries: at most "
        f"{place.path_mtu - WIREGUARD_OVERHEAD} ({place.path_mtu} less {WIREGUARD_OVERHEAD} of WireGuard); leave it out"
        for place in plan.places
        if plan.mtu > place.path_mtu - WIREGUARD_OVERHEAD
    ]


def _kilo_problems(plan: MeshPlan) -> list[str]:
    found = []
    if plan.granularity is not PAIRS[plan.cni]:
        found.append(
            f"granularity: {plan.granularity} does not work with {plan.cni}: "
            f"{_WHY_NOT[plan.cni]}; use {PAIRS[plan.cni]}"
        )
    quiet = [place.name for place in plan.places if plan.keeps_alive(place)]
    if quiet and plan.keepalive == 0:
        found.append(
            f"persistent_keepalive: must be 1 or more seconds, since {', '.join(quiet)} can be reached only "
            "through an address translation that forgets silent peers"
        )
    if len(plan.places) > 1 and not any(plan.dialled(place) for place in plan.places):
        found.append(
            "locations: nobody knows where to send the first packet, since Kilo does not see the public addresses "
            "that a cloud translates: give one location a public_endpoint"
        )
    for place in plan.places:
        if place.exposed and plan.granularity is Granularity.FULL:
            found.append(
                f"locations.{place.name}.exposed_cidrs: needs granularity location; with full every machine would "
                "claim the same ranges, and Kilo drops all claims but one"
            )
    return found


def _kubespan_problems(plan: MeshPlan) -> list[str]:
    found = []
    if plan.port != KUBESPAN_PORT:
        found.append(f"port: KubeSpan uses {KUBESPAN_PORT} and no other")
    if plan.peers is not None:
        found.append("peer_cidr: KubeSpan joins members of the cluster only: use Kilo for peers outside of it")
    for place in plan.places:
        if place.endpoint is not None and place.endpoint.address is None:
            found.append(
                f"locations.{place.name}.public_endpoint: KubeSpan announces addresses: "
                "write an IPv4 address, not a name"
            )
        if place.exposed:
            found.append(
                f"locations.{place.name}.exposed_cidrs: KubeSpan joins machines only, it routes no other ranges"
            )
    return found
