"""The load balancer before control planes on Alibaba Cloud, and the endpoint's record in Alibaba Cloud DNS."""

from collections.abc import Mapping

import pulumi
import pulumi_alicloud as alicloud
from pulumi_alicloud import dns, nlb

from .settings import Settings
from .settings_endpoint import AliyunDnsRecord, AliyunLoadBalancer

_API_PORT = 6443


def load_balancer(settings: Settings, made: AliyunLoadBalancer) -> pulumi.Output[str]:
    """Declare a Network Load Balancer before the control planes; return the name that the cloud gives it.

    Its servers are addresses, so nothing of the machines themselves is touched. It asks the API's port of each of
    them, and leaves out one that does not answer.
    """
    cluster = settings.cluster
    child = pulumi.ResourceOptions(provider=alicloud.Provider("aliyun-endpoint", region=made.region))
    name = f"{cluster.name}-api"
    balancer = nlb.LoadBalancer(
        "endpoint-load-balancer",
        load_balancer_name=name,
        load_balancer_type="Network",
        address_type="Intranet" if made.internal else "Internet",
        address_ip_version="Ipv4",
        vpc_id=made.vpc_id,
        zone_mappings=[
            nlb.LoadBalancerZoneMappingArgs(zone_id=zone, vswitch_id=vswitch)
            for zone, vswitch in sorted(made.zones.items())
        ],
        cross_zone_enabled=True,
        opts=child,
    )
    group = nlb.ServerGroup(
        "endpoint-servers",
        server_group_name=name,
        server_group_type="Ip",
        vpc_id=made.vpc_id,
        protocol="TCP",
        scheduler="Wrr",
        # Servers that are addresses are not reached with the client's own.
        preserve_client_ip_enabled=False,
        health_check=nlb.ServerGroupHealthCheckArgs(
            health_check_enabled=True,
            health_check_type="TCP",
            health_check_connect_port=_API_PORT,
            health_check_connect_timeout=5,
            health_check_interval=5,
            healthy_threshold=2,
            unhealthy_threshold=2,
        ),
        opts=child,
    )
    servers = [
        nlb.ServerGroupServerAttachment(
            f"endpoint-server-{member.name}",
            server_group_id=group.id,
            server_type="Ip",
            server_id=str(member.address),
            server_ip=str(member.address),
            port=_API_PORT,
            weight=100,
            opts=child,
        )
        for member in sorted(cluster.control_planes, key=lambda member: member.name)
    ]
    listener = nlb.Listener(
        "endpoint-listener",
        load_balancer_id=balancer.id,
        server_group_id=group.id,
        listener_protocol="TCP",
        listener_port=cluster.endpoint.port,
        # Watches of the API are silent for long; this is the longest.
        idle_timeout=900,
        opts=child,
    )
    # The name is of use once all of it is there.
    ready = [listener.id, *(server.id for server in servers)]
    return pulumi.Output.all(balancer.dns_name, *ready).apply(lambda known: str(known[0]))


def record(
    made: AliyunDnsRecord, host: str, targets: Mapping[str, pulumi.Input[str]], *, alias: bool
) -> pulumi.Output[str]:
    """Declare the endpoint's records in Alibaba Cloud DNS, one for each target; return their ids."""
    child = pulumi.ResourceOptions(provider=alicloud.Provider("aliyun-dns", region=made.region))
    found = [
        dns.AlidnsRecord(
            f"endpoint-record-{name}",
            domain_name=made.domain,
            rr=host.removesuffix(f".{made.domain}"),
            type="CNAME" if alias else "A",
            value=target,
            ttl=made.ttl,
            opts=child,
        )
        for name, target in targets.items()
    ]
    return pulumi.Output.all(*(one.id for one in found)).apply(lambda ids: ",".join(map(str, ids)))
