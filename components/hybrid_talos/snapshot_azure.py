"""Snapshots of etcd in a container of Azure Blob Storage."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceRequestError,
)

from .azure_blob_client import blob_client, code_of, container_client
from .azure_cloud import ADDRESSES, AzureEnvironment
from .azure_credential import no_identity
from .snapshot_store import Kept, is_snapshot
from .work_provider import WorkError

_BLOCK = 8 << 20
"""Bytes of a block, of which one is in memory; a blob has 50,000 of them (learn.microsoft.com, "Put Block")."""

_CLOUDS = {
    ".blob.core.chinacloudapi.cn": AzureEnvironment.CHINA,
    ".blob.core.usgovcloudapi.net": AzureEnvironment.US_GOVERNMENT,
}


@dataclass(frozen=True)
class Container:
    """A container, and the folder in it."""

    endpoint: str
    """Address of the storage account."""
    account: str
    container: str
    prefix: str
    """Empty, or with a slash at its end."""

    @classmethod
    def of(cls, url: str) -> "Container":
        """Return what `https://<account>.blob.<cloud>/<container>[/<folder>]` means.

        With another host, as of an emulator, the account is the first part of the path. ValueError when it is no such
        address.
        """
        parts = urlsplit(url)
        host, folders = parts.hostname or "", [part for part in parts.path.split("/") if part]
        by_host = ".blob." in host
        if parts.scheme != "https" or parts.query or parts.username or len(folders) < (1 if by_host else 2):
            raise ValueError(url)
        base = f"https://{parts.netloc}"
        account = host.partition(".")[0] if by_host else folders.pop(0)
        container, *rest = folders
        return cls(base if by_host else f"{base}/{account}", account, container, "".join(f"{part}/" for part in rest))


class AzureStore:
    """A container; who runs this may write there by azure-identity's chain, never by a key of the account."""

    def __init__(self, place: Container) -> None:
        self._place = place
        cloud = next((c for end, c in _CLOUDS.items() if end in place.endpoint), AzureEnvironment.PUBLIC)
        self._props: dict[str, Any] = {
            "endpoint": place.endpoint,
            "account": place.account,
            "container": place.container,
            "environment": cloud,
            "authority": ADDRESSES[cloud].authority,
        }

    @property
    def where(self) -> str:
        """Return the address of the container."""
        return f"{self._place.endpoint}/{self._place.container}/{self._place.prefix}".rstrip("/")

    def put(self, name: str, content: Iterator[bytes]) -> None:
        """Upload blocks, which are nothing until the last of them is there and all are made a blob."""
        with self._errors(), self._blob(name, max_block_size=_BLOCK, max_single_put_size=_BLOCK) as blob:
            try:
                blob.upload_blob(content, overwrite=False)
            except ResourceExistsError:
                raise WorkError(f"{self.where}/{name} is there already. Next: run the command again") from None

    def get(self, name: str) -> Generator[bytes, None, None]:
        """Download a blob in pieces."""
        with self._errors(), self._blob(name, max_single_get_size=_BLOCK, max_chunk_get_size=_BLOCK) as blob:
            yield from blob.download_blob().chunks()

    def names(self) -> list[Kept]:
        """List the blobs below the folder."""
        with self._errors(), container_client(self._props) as container:
            found = [
                Kept(blob.name.removeprefix(self._place.prefix), int(blob.size))
                for blob in container.list_blobs(name_starts_with=self._place.prefix or None)
            ]
        return sorted((one for one in found if is_snapshot(one.name)), key=lambda one: one.name)

    def remove(self, name: str) -> None:
        """Delete a blob."""
        with self._errors(), self._blob(name) as blob:
            try:
                blob.delete_blob()
            except ResourceNotFoundError:
                # The container may be what is not there, which the next upload tells.
                return

    def _blob(self, name: str, **options: Any) -> Any:
        return blob_client(self._props, self._place.prefix + name, **options)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        where = self.where
        try:
            yield
        except ClientAuthenticationError as error:
            raise WorkError(f"{where}: {no_identity(error)}") from None
        except ServiceRequestError:
            raise WorkError(
                f"{where}: cannot be reached. Next: see that the account exists and the network leads there"
            ) from None
        except HttpResponseError as error:
            code = code_of(error)
            if error.status_code == 403:
                raise WorkError(
                    f"{where}: this identity may not do that ({code}). Next: give it the role 'Storage Blob Data "
                    "Contributor' on the container"
                ) from None
            if error.status_code == 404:
                raise WorkError(
                    f"{where}: is not there ({code}). Next: make the container, or name another one"
                ) from None
            raise WorkError(f"{where}: {error.reason} ({code})") from None
        except AzureError as error:
            raise WorkError(
                f"{where}: the connection broke ({type(error).__name__}). Next: run the command again"
            ) from None
