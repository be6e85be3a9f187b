"""Identity providers that RAM trusts.

Sources: alibabacloud.com API page CreateOIDCProvider; aliyun/terraform-provider-alicloud
resource_alicloud_ims_oidc_provider.go.
"""

import re

from ..provider import Call
from ..world import CloudError
from .bridge import ACCOUNT, FIXED, Attr, BridgedKind, Doc, find, whole


class OidcProvider(BridgedKind):
    """An identity provider that RAM trusts."""

    token = "alicloud:ims/oidcProvider:OidcProvider"
    global_ = True
    attrs = {
        "clientIds": Attr(is_set=True, most=50),
        "fingerprints": Attr(is_set=True, most=5),
        "issuanceLimitTime": whole(0, 168, computed=True),
        "issuerUrl": FIXED,
        "oidcProviderName": FIXED,
    }

    def _id(self, call: Call, doc: Doc) -> str:
        return str(doc["oidcProviderName"])

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        # CreateOIDCProvider, parameters OIDCProviderName, IssuerUrl, Fingerprints.
        if re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?", id) is None:
            raise CloudError("InvalidParameter.OIDCProviderName.Format", f"The OIDC provider name '{id}' is not valid.")
        url = str(doc["issuerUrl"])
        if re.fullmatch(r"https://[^?#@\s]{1,247}", url) is None:
            raise CloudError("InvalidParameter.IssuerUrl.Format", f"The issuer '{url}' must be an https:// address.")
        for print_ in doc.get("fingerprints") or ():
            if re.fullmatch(r"[0-9A-Fa-f]{40}", str(print_)) is None:
                raise CloudError("InvalidParameter.Fingerprint.Format", f"'{print_}' is no SHA-1 fingerprint.")
        for other in find(call.world, self.kind):
            if (other.id == id and old is None) or (other.id != id and other.doc["issuerUrl"] == url):
                raise CloudError("EntityAlreadyExists.OIDCProvider", f"The OIDC provider {other.id} exists already.")
        doc |= {"arn": f"acs:ram::{ACCOUNT}:oidc-provider/{id}"}
        doc.setdefault("issuanceLimitTime", 12)
        doc.setdefault("createTime", "2026-01-01T00:00:00Z")
