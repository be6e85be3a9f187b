"""Which store an address of snapshots means."""

import re
from pathlib import Path

from .snapshot_azure import AzureStore, Container
from .snapshot_folder import FolderStore
from .snapshot_oss import OssStore
from .snapshot_store import Store
from .work_provider import WorkError

# alibabacloud.com OSS, "Bucket naming conventions".
_OSS = re.compile(r"oss://(?P<bucket>[a-z0-9][a-z0-9-]{1,61}[a-z0-9])(?P<folder>(/[^/?#]+)*)/?")

REGION_KEYS = "--oss-region; ossRegion in settings"
ENDPOINT_KEYS = "--oss-endpoint; ossEndpoint in settings"


def place_problem(place: str, region: str | None = None, endpoint: str | None = None) -> str | None:
    """Return why `store_at` refuses a place, or None; nothing is asked of it.

    Without the place, which may be a secret that stands at the wrong key.
    """
    try:
        store_at(place, region, endpoint)
    except WorkError as error:
        return str(error).removeprefix(f"{place}: ").removeprefix(f"{place.partition('?')[0]}: ")
    return None


def store_at(place: str, region: str | None = None, endpoint: str | None = None) -> Store:
    """Return the store at a place: a folder, an address of Azure Blob Storage, or a bucket of OSS.

    Args:
        place: a path, `https://<account>.blob.core.windows.net/<container>[/<folder>]` or `oss://<bucket>[/<folder>]`.
        region: of the bucket.
        endpoint: address of OSS, of its public one in the region if left out.

    Raises:
        WorkError: it is none of these.
    """
    if place.startswith("oss://"):
        found = _OSS.fullmatch(place)
        if found is None:
            raise WorkError(f"{place}: must be a bucket of OSS: oss://<bucket>[/<folder>]")
        if not region:
            raise WorkError(f"{place}: needs the region of the bucket, such as cn-hangzhou ({REGION_KEYS})")
        if endpoint is not None and not endpoint.startswith("https://"):
            raise WorkError(f"the address of OSS ({ENDPOINT_KEYS}) must begin with https://: credentials go there")
        folder = found["folder"].removeprefix("/")
        return OssStore(found["bucket"], f"{folder}/" if folder else "", region, endpoint)
    if "://" in place:
        try:
            return AzureStore(Container.of(place))
        except ValueError:
            raise WorkError(
                f"{place.partition('?')[0]}: must be a folder, https://<account>.blob.core.windows.net/<container>"
                "[/<folder>] without a query, or oss://<bucket>[/<folder>]"
            ) from None
    return FolderStore(Path(place).expanduser())
