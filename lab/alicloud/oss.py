"""OSS buckets and their access control lists.

Sources: alibabacloud.com OSS "PutBucket" (names), "PutBucketAcl", "DeleteBucket", "Lifecycle rules";
aliyun/terraform-provider-alicloud resource_alicloud_oss_bucket.go, resource_alicloud_oss_bucket_acl.go.
"""

import re
import secrets

from ..provider import Call
from ..world import CloudError, Record
from . import names
from .bridge import ACCOUNT, FIXED, PACKAGE, Attr, BridgedKind, Doc, find, lookup, one_of, region_of
from .oss_store import Store

_ACLS = ("private", "public-read", "public-read-write")


class Bucket(BridgedKind):
    """An OSS bucket. Its name is unique in all of Alibaba Cloud."""

    token = "alicloud:oss/bucket:Bucket"
    attrs = {
        "bucket": Attr(replaces=True, computed=True, length=(3, 63)),
        "acl": one_of(*_ACLS, computed=True),
        "forceDestroy": Attr(default=False),
        "storageClass": one_of(
            *("Standard", "IA", "Archive", "ColdArchive", "DeepColdArchive"), replaces=True, default="Standard"
        ),
        "redundancyType": one_of("LRS", "ZRS", replaces=True, default="LRS"),
        "corsRules": Attr(most=10),
        "lifecycleRules": Attr(
            most=1000, nested={"id": Attr(computed=True, length=(0, 255)), "abortMultipartUploads": Attr(is_set=True)}
        ),
        "resourceGroupId": Attr(computed=True),
    }

    def _id(self, call: Call, doc: Doc) -> str:
        # resource_alicloud_oss_bucket.go: resource.PrefixedUniqueId("tf-oss-bucket-").
        number = f"{call.world.next('alicloud:bucket'):08d}"
        name = doc.setdefault("bucket", f"tf-oss-bucket-{secrets.token_hex(9)}{number}")
        return str(name)

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        if re.fullmatch(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", id) is None:
            raise CloudError("InvalidBucketName", f"The specified bucket is not valid: {id}.")
        if old is None and call.world.get(PACKAGE, self.kind, id) is not None:
            raise CloudError(
                "BucketAlreadyExists",
                f"The requested bucket name '{id}' is not available. The bucket namespace is shared by all "
                "users of the system.",
            )
        names.verify_tags(doc.get("tags"))
        region = doc["_region"]
        doc.setdefault("acl", "private")
        doc.setdefault("resourceGroupId", "rg-lab")
        doc |= {
            "location": f"oss-{region}",
            "extranetEndpoint": f"oss-{region}.aliyuncs.com",
            "intranetEndpoint": f"oss-{region}-internal.aliyuncs.com",
            "owner": ACCOUNT,
            "creationDate": "2026-01-01",
        }

    def _before_delete(self, call: Call, record: Record) -> None:
        store = Store(call.world)
        # The provider's force_destroy removes objects only, and OSS "Delete parts" wants parts gone too.
        if store.uploads(record.id) or (store.objects(record.id) and not record.doc["forceDestroy"]):
            raise CloudError("BucketNotEmpty", f"The bucket you tried to delete is not empty: {record.id}.")
        store.empty(record.id)
        for acl in find(call.world, "BucketAcl", bucket=record.id):
            call.world.remove(PACKAGE, "BucketAcl", acl.id)


class BucketAcl(BridgedKind):
    """Who may reach a bucket."""

    token = "alicloud:oss/bucketAcl:BucketAcl"
    attrs = {"acl": Attr(), "bucket": FIXED}

    def _id(self, call: Call, doc: Doc) -> str:
        return str(doc["bucket"])

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        if doc["acl"] not in _ACLS:
            raise CloudError("InvalidArgument", f"no such bucket access control exists: {doc['acl']}")
        bucket = lookup(call.world, "Bucket", doc["bucket"], region_of(call))
        if bucket is None:
            raise CloudError("NoSuchBucket", f"The specified bucket does not exist: {doc['bucket']}.")
        call.world.put(PACKAGE, "Bucket", bucket.id, bucket.doc | {"acl": doc["acl"]})
