"""The lab's name server, on loopback: the simulated clouds' zones, and the records that a person makes by hand.

The wire format is dnslib's; this module says which addresses a name has.
"""

from collections.abc import Iterable

import dnslib
from dnslib.server import BaseResolver, DNSServer

from .world import World

PACKAGE = "dns"
KIND = "A"
HELD = "held"
"""A mark on records of a person's own: they stay as they are whatever the next configuration says."""

_LONGEST_CHAIN = 8


def _azure(world: World, name: str) -> Iterable[str]:
    for record in world.find("azure-native", "RecordSet"):
        if str(record.doc.get("fqdn", "")).rstrip(".") == name:
            yield from (str(entry["ipv4Address"]) for entry in record.doc.get("aRecords") or ())
            if alias := (record.doc.get("cnameRecord") or {}).get("cname"):
                yield str(alias)


def _alibaba(world: World, name: str) -> Iterable[str]:
    for record in world.find("alicloud", "AlidnsRecord"):
        host, domain = record.doc["rr"], record.doc["domainName"]
        if name == (domain if host == "@" else f"{host}.{domain}") and record.doc.get("status") == "ENABLE":
            yield str(record.doc["value"])
    for balancer in world.find("alicloud", "LoadBalancer"):
        if balancer.doc.get("dnsName") == name:
            yield from balancer.doc["_addresses"]


def addresses(world: World, name: str) -> list[str]:
    """Return the IPv4 addresses of a name, aliases followed; empty when it has none."""
    wanted, found = [name.rstrip(".").lower()], set()
    for _ in range(_LONGEST_CHAIN):
        answers: set[str] = set()
        for one in wanted:
            answers |= set((world.get(PACKAGE, KIND, one) or {}).get("addresses") or ())
            answers |= {answer.rstrip(".").lower() for source in (_azure, _alibaba) for answer in source(world, one)}
        found |= {answer for answer in answers if _is_address(answer)}
        wanted = sorted(answers - found)
        if not wanted:
            break
    return sorted(found)


def _is_address(text: str) -> bool:
    return text.replace(".", "").isdecimal()


def by_hand(world: World, name: str, members: Iterable[str]) -> None:
    """Do what a person is told to do: make a record for each control plane. Records of an own mind stay."""
    known = world.get(PACKAGE, KIND, name) or {}
    if not known.get(HELD):
        world.put(PACKAGE, KIND, name, {"addresses": sorted(members)})


class _Resolver(BaseResolver):  # type: ignore[misc]
    def __init__(self, world: World) -> None:
        self._world = world

    def resolve(self, request: dnslib.DNSRecord, handler: object) -> dnslib.DNSRecord:
        reply = request.reply()
        name = str(request.q.qname)
        found = addresses(self._world, name)
        if not found:
            reply.header.rcode = dnslib.RCODE.NXDOMAIN
        elif request.q.qtype == dnslib.QTYPE.A:
            for address in found:
                reply.add_answer(dnslib.RR(name, dnslib.QTYPE.A, rdata=dnslib.A(address), ttl=1))
        return reply


class NameServer:
    """A name server over a world, on UDP."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._server: DNSServer | None = None
        self.address = ""
        """Where it listens, as address:port."""

    def start(self, port: int) -> None:
        """Listen on a port of loopback; OSError when it is taken."""
        logger = dnslib.server.DNSLogger("-request,-reply,-truncated,-error", False)
        server = DNSServer(_Resolver(self._world), address="127.0.0.1", port=port, logger=logger)
        server.start_thread()
        self._server = server
        self.address = f"127.0.0.1:{port}"

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.stop()
            self._server.server.server_close()
