"""Load balancers.

Sources: learn.microsoft.com "Azure Load Balancer SKUs", "Backend pool management" (pools by IP address), "Azure Load
Balancer health probes", "Configure load balancer TCP reset and idle timeout".
"""

from ipaddress import IPv4Address

from ..provider import Call
from ..world import CloudError, Record, World
from .egress import NetworkKind, sku_of
from .network import spaces, subnet_prefixes
from .records import PACKAGE, Doc, lookup, name_of, reference, reference_id, referrers

_PROTOCOLS = ("Tcp", "Udp", "All")
_MOST_ADDRESSES = 100
"""Addresses of one pool."""
_PARTS = ("frontendIPConfigurations", "backendAddressPools", "probes", "loadBalancingRules")


class LoadBalancer(NetworkKind):
    """A load balancer."""

    token = "azure-native:network:LoadBalancer"
    arm_type = "Microsoft.Network/loadBalancers"
    name_input = "loadBalancerName"
    replace_on = frozenset({"resourceGroupName", "loadBalancerName"})

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        # learn.microsoft.com "Azure Load Balancer SKUs": Basic was retired on 2025-09-30.
        if sku_of(inputs) == "Basic":
            raise CloudError("BasicSkuLoadBalancerRetired", f"Load balancer {id} must have the Standard sku.")
        for frontend in inputs.get("frontendIPConfigurations") or ():
            if target := reference_id(frontend.get("publicIPAddress")):
                reference(call.world, id, "PublicIPAddress", target, doc["location"])
            if target := reference_id(frontend.get("subnet")):
                reference(call.world, id, "Subnet", target, None)
        for pool in inputs.get("backendAddressPools") or ():
            self._addresses(call, id, pool)
        for probe in inputs.get("probes") or ():
            if int(probe.get("intervalInSeconds") or 15) < 5:
                raise CloudError("InvalidProbeInterval", f"The probe {probe.get('name')} of {id} must wait 5 seconds.")
            if not 1 <= int(probe["port"]) <= 65535:
                raise CloudError("InvalidRequestFormat", f"The probe {probe.get('name')} of {id} has no valid port.")
        for rule in inputs.get("loadBalancingRules") or ():
            self._rule(id, inputs, rule)

    def _addresses(self, call: Call, id: str, pool: Doc) -> None:
        found = pool.get("loadBalancerBackendAddresses") or ()
        if len(found) > _MOST_ADDRESSES:
            raise CloudError("BackendAddressLimit", f"The pool {pool.get('name')} of {id} has over {_MOST_ADDRESSES}.")
        names = [address.get("name") for address in found]
        if len(set(names)) < len(names):
            raise CloudError("DuplicateResourceName", f"Two addresses of {pool.get('name')} have one name.")
        for address in found:
            network_id = reference_id(address.get("virtualNetwork"))
            network = lookup(call.world, "VirtualNetwork", network_id)
            if network is None:
                raise CloudError(
                    "InvalidResourceReference", f"Resource {network_id} referenced by resource {id} was not found."
                )
            own = IPv4Address(address["ipAddress"])
            if not any(own in space for space in spaces(network)):
                raise CloudError(
                    "InvalidRequestFormat",
                    f"The backend address {own} of {id} lies outside the virtual network {name_of(network.id)}.",
                )

    def _rule(self, id: str, inputs: Doc, rule: Doc) -> None:
        if rule.get("protocol") not in _PROTOCOLS:
            raise CloudError("InvalidRequestFormat", f"The rule {rule.get('name')} of {id} has no valid protocol.")
        # The idle timeout of a TCP rule.
        if not 4 <= int(rule.get("idleTimeoutInMinutes") or 4) <= 100:
            raise CloudError("InvalidIdleTimeout", f"The rule {rule.get('name')} of {id} must have 4 to 100 minutes.")
        for key, part in (
            ("frontendIPConfiguration", "frontendIPConfigurations"),
            ("backendAddressPool", "backendAddressPools"),
            ("probe", "probes"),
        ):
            target = reference_id(rule.get(key))
            known = {f"{id}/{part}/{entry.get('name')}".lower() for entry in inputs.get(part) or ()}
            if target is not None and target.lower() not in known:
                raise CloudError(
                    "InvalidResourceReference",
                    f"Resource {target} referenced by resource {id}/loadBalancingRules/{rule.get('name')} was not "
                    "found.",
                )

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        for part in _PARTS:
            if part in doc:
                doc[part] = [{**entry, "id": f"{id}/{part}/{entry.get('name')}"} for entry in doc[part]]
        before = {entry["name"]: entry for entry in (old or {}).get("frontendIPConfigurations") or ()}
        for frontend in doc.get("frontendIPConfigurations") or ():
            subnet = lookup(call.world, "Subnet", reference_id(frontend.get("subnet")))
            if subnet is not None and not frontend.get("privateIPAddress"):
                kept = before.get(frontend["name"], {}).get("privateIPAddress")
                frontend["privateIPAddress"] = kept or _free_address(call.world, subnet)
        return super()._computed(call, id, inputs, doc, old)

    def _before_delete(self, call: Call, record: Record) -> None:
        pools = [
            f"{record.id}/backendAddressPools/{p.get('name')}" for p in record.doc.get("backendAddressPools") or ()
        ]
        for pool in pools:
            # The load balancer's own rules name its pools as well.
            if users := [user for user in referrers(call.world, pool) if user != record.id]:
                raise CloudError(
                    "LoadBalancerInUseByVirtualMachineScaleSet",
                    f"Cannot delete load balancer {record.id} since its child resources {name_of(pool)} are in use by "
                    f"virtual machine scale set {users[0]}.",
                )


def _free_address(world: World, subnet: Record) -> str:
    """Return the last address of a subnet that no other load balancer has."""
    taken = {
        frontend.get("privateIPAddress")
        for other in world.find(PACKAGE, "LoadBalancer")
        for frontend in other.doc.get("frontendIPConfigurations") or ()
    }
    (network, *_) = subnet_prefixes(subnet.doc, subnet.id)
    return next(str(network[at]) for at in range(-2, -network.num_addresses, -1) if str(network[at]) not in taken)
