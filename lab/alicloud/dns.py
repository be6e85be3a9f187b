"""Records of Alibaba Cloud DNS.

Sources: alibabacloud.com API pages AddDomainRecord, UpdateDomainRecord and "DNS record types and rules" (a CNAME and an
A record of one host and line exclude each other), "TTL of DNS records";
aliyun/terraform-provider-alicloud resource_alicloud_alidns_record.go.
"""

import re
from ipaddress import AddressValueError, IPv4Address

from ..provider import Call
from ..world import CloudError, World
from .bridge import PACKAGE, PLAIN, Attr, BridgedKind, Doc, find, one_of, whole

_TYPES = ("A", "CNAME")
"""The types that are simulated."""
_HOST = re.compile(r"@|(?!-)[A-Za-z0-9_*-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")


class AlidnsRecord(BridgedKind):
    """One record of a domain."""

    token = "alicloud:dns/alidnsRecord:AlidnsRecord"
    global_ = True
    attrs = {
        "domainName": Attr(replaces=True),
        "lang": PLAIN,
        "line": Attr(default="default"),
        "priority": whole(1, 10),
        "remark": PLAIN,
        "rr": PLAIN,
        "status": one_of("ENABLE", "DISABLE", default="ENABLE"),
        "ttl": whole(1, 86400, default=600),
        "type": PLAIN,
        "userClientIp": PLAIN,
        "value": PLAIN,
    }

    def _id(self, call: Call, doc: Doc) -> str:
        return f"8{call.world.next('alicloud:dns-record'):017d}"

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        if call.world.get(PACKAGE, "domain", doc["domainName"]) is None:
            raise CloudError("InvalidDomainName.NoExist", f"The domain {doc['domainName']} is not in this account.")
        if doc["type"] not in _TYPES:
            raise CloudError("NotSimulated", f"The lab has records of type {', '.join(_TYPES)}, not {doc['type']}.")
        if not _HOST.fullmatch(str(doc["rr"])):
            raise CloudError("InvalidRR.Format", f"The host record {doc['rr']} is not valid.")
        if doc["type"] == "A":
            try:
                IPv4Address(doc["value"])
            except AddressValueError:
                raise CloudError("InvalidValue", f"{doc['value']} is no IPv4 address.") from None
        # The free edition's shortest.
        if int(doc["ttl"]) < 600:
            raise CloudError("QuotaExceeded.TTL", f"The edition of {doc['domainName']} allows a TTL of 600 and more.")
        for other in find(call.world, self.kind, domainName=doc["domainName"], rr=doc["rr"], line=doc["line"]):
            if other.id == id:
                continue
            if other.doc["type"] == doc["type"] and other.doc["value"] == doc["value"]:
                raise CloudError("DomainRecordDuplicate", f"The record {doc['rr']} {doc['value']} exists already.")
            if "CNAME" in (other.doc["type"], doc["type"]):
                raise CloudError("DomainRecordConflict", f"{doc['rr']} has a {other.doc['type']} record already.")


def add_domain(world: World, name: str) -> None:
    """Put a domain into the account, as if it had been there before the program."""
    world.put(PACKAGE, "domain", name, {"domainName": name})
