"""What a machine in maintenance mode is made of, read from the answers of talosctl, and the settings that follow."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Ask = Callable[[str], str]
"""Returns what `talosctl get <resource> -o json` prints about one machine."""

SMALLEST_DISK = 5_000_000_000
"""Bytes below which a disk is not offered: Talos's own partitions would not fit (docs.siderolabs.com, "System
Requirements")."""


class NotUnderstoodError(Exception):
    """talosctl printed something else than resources."""


@dataclass(frozen=True)
class Disk:
    """A disk that Talos can be installed on."""

    path: str
    size: int
    kind: str
    """ssd or hdd."""
    transport: str
    model: str = ""
    serial: str = ""
    wwid: str = ""

    @property
    def words(self) -> str:
        """Return the disk in words."""
        named = [f"serial {self.serial}"] if self.serial else []
        words = [self.path, f"{self.size / 1e9:.0f} GB", self.kind, self.transport, self.model, *named]
        return "  ".join(word for word in words if word)


@dataclass(frozen=True)
class Link:
    """A physical network link."""

    name: str
    mac: str
    up: bool
    addresses: Sequence[str] = ()
    gateway: str = ""

    @property
    def words(self) -> str:
        """Return the link in words."""
        state = "up" if self.up else "down"
        return "  ".join([self.name, self.mac, state, *self.addresses])


@dataclass(frozen=True)
class Machine:
    """A machine that waits for its configuration."""

    address: str
    disks: Sequence[Disk] = ()
    links: Sequence[Link] = field(default_factory=tuple)

    @property
    def disk(self) -> Disk | None:
        """Return the disk to install on: one that is built in goes before a stick."""
        built_in = [disk for disk in self.disks if disk.transport != "usb"]
        return next(iter([*built_in, *self.disks]), None)


def resources(printed: str) -> list[dict[str, Any]]:
    """Return the resources that talosctl printed as JSON, one object after the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    text = printed.strip()
    try:
        while at < len(text):
            resource, end = decoder.raw_decode(text, at)
            found.append({"id": resource["metadata"]["id"], **resource["spec"]})
            at = end + len(text[end:]) - len(text[end:].lstrip())
    except (ValueError, KeyError, TypeError):
        raise NotUnderstoodError from None
    return found


def look(address: str, ask: Ask, *, static: bool = True) -> Machine:
    """Return what the machine at an address is made of; the gateways of links only for ``static`` addresses."""
    disks = sorted(_disks(resources(ask("disks"))), key=lambda disk: disk.path)
    addresses = resources(ask("addresses"))
    routes = resources(ask("routes")) if static else []
    links = sorted(_links(resources(ask("links")), addresses, routes), key=lambda link: link.name)
    return Machine(address, tuple(disks), tuple(links))


def _disks(found: Sequence[dict[str, Any]]) -> Iterator[Disk]:
    for disk in found:
        # As Talos's own selector leaves out what is no disk of its own (siderolabs/talos v1alpha1_provider.go,
        # DiskMatchExpression).
        usable = disk.get("transport") and not disk.get("readonly") and not disk.get("cdrom")
        if usable and int(disk.get("size") or 0) >= SMALLEST_DISK:
            yield Disk(
                path=str(disk.get("dev_path") or f"/dev/{disk['id']}"),
                size=int(disk["size"]),
                kind="hdd" if disk.get("rotational") else "ssd",
                transport=str(disk["transport"]),
                model=str(disk.get("model") or "").strip(),
                serial=str(disk.get("serial") or "").strip(),
                wwid=str(disk.get("wwid") or "").strip(),
            )


def _links(
    found: Sequence[dict[str, Any]], addresses: Sequence[dict[str, Any]], routes: Sequence[dict[str, Any]]
) -> Iterator[Link]:
    for link in found:
        # Physical Ethernet: anything else is made by a configuration.
        if link.get("type") != "ether" or link.get("kind"):
            continue
        own = [
            str(address["address"])
            for address in addresses
            if address.get("linkName") == link["id"] and address.get("family") == "inet4"
        ]
        gateways = [
            str(route["gateway"])
            for route in routes
            if route.get("outLinkName") == link["id"]
            and route.get("gateway")
            and route.get("family") == "inet4"
            and route.get("dst") in ("", None, "0.0.0.0/0")
        ]
        yield Link(
            name=str(link["id"]),
            mac=str(link.get("permanentAddr") or link.get("hardwareAddr") or ""),
            up=bool(link.get("linkState")),
            addresses=tuple(sorted(own)),
            gateway=next(iter(gateways), ""),
        )


def settings_of(machine: Machine, name: str, *, static: bool) -> str:
    """Return the entry of `cluster.controlPlanes` or `cluster.workers` for a machine, as YAML with comments."""
    lines = [f"- name: {name}", f"  address: {machine.address}", *_disk_lines(machine)]
    links = [_link_entry(link) for link in machine.links if link.addresses] if static else []
    if links:
        lines += ["  links:", *(f"    - {entry}" for entry in links)]
    lines += [f"  # link: {link.words}" for link in machine.links]
    return "\n".join(lines) + "\n"


def _disk_lines(machine: Machine) -> list[str]:
    chosen = machine.disk
    if chosen is None:
        return [f"  # no disk of {SMALLEST_DISK / 1e9:.0f} GB or more was found"]
    lines = [f"  installDisk: {chosen.path}"]
    for key, value in (("wwid", chosen.wwid), ("serial", chosen.serial)):
        if value and [getattr(disk, key) for disk in machine.disks].count(value) == 1:
            lines.append(f"  # the same, whatever its path: installDiskSelector: {{{key}: {json.dumps(value)}}}")
            break
    return lines + [f"  # disk: {disk.words}" for disk in machine.disks]


def _link_entry(link: Link) -> str:
    entry = f"{{name: {link.name}, addresses: [{', '.join(link.addresses)}]"
    if link.gateway:
        entry += f", routes: [{{gateway: {link.gateway}}}]"
    return entry + "}"
