"""Record sets of Azure DNS.

Sources: learn.microsoft.com "Overview of DNS zones and records" (dns/dns-zones-records: TTL, one CNAME record and
nothing beside it, no CNAME at the apex, 20 records a set by default), "Azure DNS limits"; Azure/azure-rest-api-specs
specification/dns (the record type stands in the path).
"""

from ipaddress import AddressValueError, IPv4Address

from ..provider import Call
from ..world import CloudError, World
from . import names
from .arm import ArmKind
from .records import PACKAGE, Doc, lookup

_LONGEST_TTL = 2147483647
_MOST_RECORDS = 20
_RECORDS = {"A": "aRecords", "CNAME": "cnameRecord"}
"""The record types that are simulated, and the property of each."""


class RecordSet(ArmKind):
    """A record set of a zone, of type A or CNAME."""

    token = "azure-native:dns:RecordSet"
    arm_type = "Microsoft.Network/dnsZones/A"
    api_version = "2023-07-01-preview"
    parents = ("zoneName",)
    name_input = "relativeRecordSetName"
    naming = "copy"
    name_rule = names.NameRule(1, 253, r"@|[A-Za-z0-9_*-]+(\.[A-Za-z0-9_-]+)*", "labels of a domain name, or @")
    located = False
    replace_on = frozenset({"resourceGroupName", "zoneName", "relativeRecordSetName", "recordType"})

    def id_of(self, call: Call, inputs: Doc) -> str:
        """Return the ARM id, which has the record type in its path."""
        kind = str(inputs["recordType"])
        if kind not in _RECORDS:
            raise CloudError("NotSimulated", f"The lab has record sets of type {', '.join(_RECORDS)}, not {kind}.")
        head, _, tail = super().id_of(call, inputs).rpartition("/A/")
        return f"{head}/{kind}/{tail}"

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        kind, name = str(inputs["recordType"]), str(inputs["relativeRecordSetName"])
        ttl = inputs.get("ttl")
        if ttl is None or not 1 <= int(ttl) <= _LONGEST_TTL:
            raise CloudError("BadRequest", f"The TTL of record set {id} must be between 1 and {_LONGEST_TTL}.")
        if kind == "CNAME" and name == "@":
            raise CloudError("BadRequest", "A CNAME record set cannot be created at the zone apex.")
        beside = "CNAME" if kind == "A" else "A"
        other = id.replace(f"/{kind}/", f"/{beside}/")
        if lookup(call.world, "RecordSet", other) is not None:
            raise CloudError(
                "BadRequest", f"A record set of type CNAME cannot exist beside another of the same name: {other}."
            )
        _addresses(id, inputs) if kind == "A" else _alias(id, inputs)

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        name, zone = str(inputs["relativeRecordSetName"]), str(inputs["zoneName"])
        return {
            "fqdn": f"{zone}." if name == "@" else f"{name}.{zone}.",
            "type": f"Microsoft.Network/dnszones/{inputs['recordType']}",
            "etag": f"{call.world.next('etag'):08x}",
        }


def _addresses(id: str, inputs: Doc) -> None:
    found = [str(record.get("ipv4Address")) for record in inputs.get("aRecords") or ()]
    if not 1 <= len(found) <= _MOST_RECORDS:
        raise CloudError("BadRequest", f"Record set {id} must have 1 to {_MOST_RECORDS} records, not {len(found)}.")
    for address in found:
        try:
            IPv4Address(address)
        except AddressValueError:
            raise CloudError("BadRequest", f"The value '{address}' of record set {id} is no IPv4 address.") from None
    if len(set(found)) < len(found):
        raise CloudError("BadRequest", f"Record set {id} holds the same record twice.")


def _alias(id: str, inputs: Doc) -> None:
    if not (inputs.get("cnameRecord") or {}).get("cname"):
        raise CloudError("BadRequest", f"Record set {id} of type CNAME must have a cname.")


def add_zone(world: World, group: str, name: str) -> None:
    """Put a zone into a resource group (its ARM id), as if it had existed before the program."""
    world.put(PACKAGE, "Zone", f"{group}/providers/Microsoft.Network/dnsZones/{name}", {"name": name})
