"""The load balancer before control planes on Azure, and the endpoint's record in Azure DNS."""

from collections.abc import Mapping

import pulumi
import pulumi_azure_native as azure_native
from pulumi_azure_native import dns, network

from .settings import Settings
from .settings_endpoint import AzureAccount, AzureDnsRecord, AzureLoadBalancer

_API_PORT = 6443
_FRONT, _BACK, _PROBE = "api", "control-planes", "api"


def _subscription(settings: Settings, account: AzureAccount) -> str:
    if account.subscription_id is not None:
        return account.subscription_id
    assert settings.azure is not None, "a rule of the settings"
    return settings.azure.subscription_id


def _provider(name: str, settings: Settings, account: AzureAccount) -> azure_native.Provider:
    own = settings.azure
    return azure_native.Provider(
        name,
        subscription_id=_subscription(settings, account),
        tenant_id=account.tenant_id or (own.tenant_id if own is not None else None),
        environment=own.environment if own is not None and account.subscription_id is None else account.environment,
    )


def load_balancer(settings: Settings, made: AzureLoadBalancer) -> pulumi.Output[str]:
    """Declare a Standard load balancer before the control planes; return its address.

    Its backends are the machines' addresses in the virtual network, so nothing of the machines themselves is touched
    (learn.microsoft.com "Backend pool management", IP-based). Azure asks the API's port of each of them, and leaves
    out one that does not answer. Their security group must let in that port, from clients and from AzureLoadBalancer.
    """
    cluster = settings.cluster
    child = pulumi.ResourceOptions(provider=_provider("azure-endpoint", settings, made))
    name = f"{cluster.name}-api"
    own_id = (
        f"/subscriptions/{_subscription(settings, made)}/resourceGroups/{made.resource_group}"
        f"/providers/Microsoft.Network/loadBalancers/{name}"
    )
    front = network.FrontendIPConfigurationArgs(name=_FRONT)
    address: pulumi.Output[str] | None = None
    if made.subnet_id is not None:
        front.private_ip_allocation_method = "Dynamic"
        front.subnet = network.SubnetArgs(id=made.subnet_id)
    else:
        public = network.PublicIPAddress(
            "endpoint-address",
            resource_group_name=made.resource_group,
            public_ip_address_name=name,
            location=made.location,
            sku=network.PublicIPAddressSkuArgs(name="Standard"),
            public_ip_allocation_method="Static",
            opts=child,
        )
        front.public_ip_address = network.PublicIPAddressArgs(id=public.id)
        address = public.ip_address.apply(lambda known: known or "")
    members = sorted(cluster.control_planes, key=lambda member: member.name)
    balancer = network.LoadBalancer(
        "endpoint-load-balancer",
        resource_group_name=made.resource_group,
        load_balancer_name=name,
        location=made.location,
        sku=network.LoadBalancerSkuArgs(name="Standard"),
        frontend_ip_configurations=[front],
        backend_address_pools=[
            network.BackendAddressPoolArgs(
                name=_BACK,
                load_balancer_backend_addresses=[
                    network.LoadBalancerBackendAddressArgs(
                        name=member.name,
                        ip_address=str(member.address),
                        virtual_network=network.SubResourceArgs(id=made.vnet_id),
                    )
                    for member in members
                ],
            )
        ],
        probes=[
            network.ProbeArgs(
                name=_PROBE,
                protocol="Tcp",
                port=_API_PORT,
                interval_in_seconds=5,
                number_of_probes=2,
                probe_threshold=2,
            )
        ],
        load_balancing_rules=[
            network.LoadBalancingRuleArgs(
                name=_FRONT,
                protocol="Tcp",
                frontend_port=cluster.endpoint.port,
                backend_port=_API_PORT,
                frontend_ip_configuration=network.SubResourceArgs(id=f"{own_id}/frontendIPConfigurations/{_FRONT}"),
                backend_address_pool=network.SubResourceArgs(id=f"{own_id}/backendAddressPools/{_BACK}"),
                probe=network.SubResourceArgs(id=f"{own_id}/probes/{_PROBE}"),
                # Watches of the API are silent for long; a reset tells clients that one is gone.
                idle_timeout_in_minutes=30,
                enable_tcp_reset=True,
                disable_outbound_snat=True,
            )
        ],
        opts=child,
    )
    if address is not None:
        # The address is of use once the load balancer is there.
        return pulumi.Output.all(address, balancer.id).apply(lambda known: str(known[0]))
    inside: pulumi.Output[str] = balancer.frontend_ip_configurations.apply(
        lambda fronts: str((fronts or [])[0].private_ip_address) if fronts else ""
    )
    return inside


def record(
    settings: Settings,
    made: AzureDnsRecord,
    host: str,
    targets: Mapping[str, pulumi.Input[str]],
    *,
    alias: bool,
) -> pulumi.Output[str]:
    """Declare the endpoint's record in Azure DNS; return its id."""
    kind = "CNAME" if alias else "A"
    found = dns.RecordSet(
        "endpoint-record",
        resource_group_name=made.resource_group,
        zone_name=made.zone,
        relative_record_set_name=host.removesuffix(f".{made.zone}"),
        record_type=kind,
        ttl=made.ttl,
        a_records=None if alias else [dns.ARecordArgs(ipv4_address=target) for target in targets.values()],
        cname_record=dns.CnameRecordArgs(cname=next(iter(targets.values()))) if alias else None,
        opts=pulumi.ResourceOptions(provider=_provider("azure-dns", settings, made)),
    )
    record_id: pulumi.Output[str] = found.id
    return record_id
