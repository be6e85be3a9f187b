"""The work of EndpointCheck: see that the name of the Kubernetes API leads to the control planes, before they use it.

A name without a record, or with the address of a machine that is none of them, would be found out only when the
machines have it in their configuration and certificates and nothing joins.
"""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Any

import dns.exception
import dns.nameserver
import dns.resolver
from pulumi.dynamic import DiffResult

from .engine_log import engine_sender, note
from .work_provider import WorkError, changed, is_unknown

Properties = dict[str, Any]

PAUSE = 5.0
"""Seconds between two looks."""
_SECONDS = 5.0
"""For one question to a name server."""

Resolve = Callable[[str, str | None], list[str]]
"""Returns the IPv4 addresses of a name, asked of a name server (None: as this machine asks); empty for none."""


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    server = news.get("nameserver")
    if server is None or is_unknown(server):
        return {}
    try:
        _server(str(server))
    except ValueError as error:
        return {"nameserver": str(error)}
    return {}


def _server(text: str) -> dns.nameserver.Do53Nameserver:
    address, colon, port = text.partition(":")
    try:
        IPv4Address(address)
        number = int(port) if colon else 53
    except (AddressValueError, ValueError):
        number = 0
    if not 1 <= number <= 65535:
        raise ValueError("must be the IPv4 address of a name server, or address:port")
    return dns.nameserver.Do53Nameserver(address, number)


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Another name, other machines or another record are looked at again."""
    keys = ("host", "kind", "members", "record")
    return DiffResult(changes=any(changed(key, olds, news) for key in keys), replaces=[])


def create(props: Properties) -> tuple[str, Properties]:
    """Look until the name is right, or time is over."""
    look(props)
    return "endpoint-name", props


def read(props: Properties) -> Properties:
    """Return the resource as it is: what the name says now is the next change's business."""
    return props


def update(_olds: Properties, news: Properties) -> Properties:
    """Look again."""
    look(news)
    return news


def delete(_props: Properties) -> None:
    """Do nothing: nothing was made."""


def resolve(host: str, nameserver: str | None) -> list[str]:
    """Return the IPv4 addresses of a name; empty when it has none."""
    if nameserver is None:
        try:
            found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            return []
        return sorted({str(entry[4][0]) for entry in found})
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers = [_server(nameserver)]
    resolver.lifetime = _SECONDS
    try:
        answer = resolver.resolve(host, "A", search=False)
    except dns.exception.DNSException:
        return []
    return sorted({str(record.address) for record in answer})


def look(
    props: Properties,
    *,
    resolve: Resolve = resolve,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> None:
    """Wait until the name leads where it shall, for the inputs' minutes; WorkError with what is wrong otherwise."""
    host, server = str(props["host"]), props.get("nameserver")
    show = say or engine_sender()
    end = clock() + float(props["minutes"]) * 60
    while True:
        problem, missing = judge(props, resolve(host, server))
        # A record that this program just made is waited for in full.
        if problem is None and not (missing and props.get("record") is not None and clock() < end):
            break
        if problem is not None and clock() >= end:
            raise WorkError(f"endpoint: {problem}")
        show(problem or f"{host} has no address of {', '.join(missing)} yet")
        sleep(PAUSE)
    if missing:
        line = f"{host} has no address of {', '.join(missing)}: without the others, the cluster is not reached"
        (warn or (lambda text: note(text, warning=True)))(line)


def judge(props: Properties, found: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return what is wrong with the addresses of the name, or None, and the control planes that it lacks."""
    host = str(props["host"])
    members: list[Mapping[str, Any]] = list(props["members"])
    off = "or set check_dns of the endpoint to false (settings: cluster.endpoint.checkDns) if that is meant"
    listed = ", ".join(f"{host} A {member['addresses'][0]}" for member in members)
    if not found:
        where = "from here" if props.get("nameserver") is None else f"at the name server {props['nameserver']}"
        wanted = f"make these records: {listed}" if props["kind"] == "dns" else "make a record for the load balancer"
        return f"{host} does not resolve {where}: {wanted}, {off}", []
    if props["kind"] != "dns":
        return None, []
    known = {address for member in members for address in member["addresses"]}
    strangers = sorted(set(found) - known)
    if strangers:
        return (
            f"{host} resolves to {', '.join(strangers)}, no address of a control plane: take it out of the record, "
            f"which should be {listed}, {off}"
        ), []
    return None, [str(member["name"]) for member in members if not set(member["addresses"]) & set(found)]
