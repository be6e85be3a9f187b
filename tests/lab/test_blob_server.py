"""The blob and token servers, driven by the real azure-storage-blob and azure-identity over TLS."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import trustme
from azure.core import MatchConditions
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.identity import ManagedIdentityCredential
from azure.storage.blob import BlobClient, ContentSettings

from lab.azure import BlobServer, IdentityServer
from lab.azure.blob_store import Blob, find_by_uri
from lab.azure.identity import accepts, issue
from lab.azure.records import PACKAGE
from lab.azure.vhd import verify_vhd
from lab.world import CloudError, World
from tests.lab.azure_cloud import MIB, vhd_footer

ACCOUNT = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/acct"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "world")
    world.put(
        PACKAGE, "StorageAccount", ACCOUNT, {"name": "acct", "location": "westeurope", "allowSharedKeyAccess": False}
    )
    container = f"{ACCOUNT}/blobServices/default/containers/images"
    world.put(PACKAGE, "BlobContainer", container, {"name": "images", "etag": '"1"'})
    yield world
    world.close()


@pytest.fixture
def identity(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityServer]:
    server = IdentityServer(world)
    server.start()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


@pytest.fixture
def server(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlobServer]:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    server = BlobServer(world)
    server.start(0, context)
    yield server
    server.stop()


def client(server: BlobServer, name: str = "disk.vhd", container: str = "images", account: str = "acct") -> BlobClient:
    return BlobClient(
        server.account_url(account), container, name, credential=ManagedIdentityCredential(), retry_total=0
    )


@pytest.fixture
def blob(server: BlobServer, identity: IdentityServer) -> Iterator[BlobClient]:
    with client(server) as blob:
        yield blob


def ranges(blob: BlobClient, **where: Any) -> list[tuple[int | None, int | None]]:
    return [(found.start, found.end) for found in blob.list_page_ranges(**where)]


def test_pages_written_are_read_back_and_the_rest_is_zero(blob: BlobClient) -> None:
    blob.create_page_blob(8 * MIB, metadata={"state": "uploading"})
    page = bytes(range(256)) * 2
    blob.upload_page(page * 2, offset=MIB, length=1024)
    assert blob.download_blob(offset=MIB - 512, length=2048).readall() == bytes(512) + page * 2 + bytes(512)
    assert blob.download_blob().readall() == bytes(MIB) + page * 2 + bytes(7 * MIB - 1024)


def test_page_ranges_name_exactly_what_was_written(blob: BlobClient) -> None:
    blob.create_page_blob(4 * MIB)
    blob.upload_page(bytes(1024), offset=512, length=1024)
    blob.upload_page(b"x" * 512, offset=2 * MIB, length=512)
    blob.clear_page(offset=512, length=512)
    assert ranges(blob) == [(1024, 1535), (2 * MIB, 2 * MIB + 511)]
    assert ranges(blob, offset=0, length=1024) == []


def test_a_cleared_page_reads_as_zero(blob: BlobClient) -> None:
    blob.create_page_blob(1024)
    blob.upload_page(b"x" * 1024, offset=0, length=1024)
    blob.clear_page(offset=0, length=512)
    assert blob.download_blob().readall() == bytes(512) + b"x" * 512


@pytest.mark.parametrize(("offset", "length"), [(0, 100), (100, 512), (512, 1024)])
def test_pages_must_be_aligned_and_inside(blob: BlobClient, offset: int, length: int) -> None:
    blob.create_page_blob(1024)
    with pytest.raises((HttpResponseError, ValueError), match="512|page range|InvalidPageRange"):
        blob.upload_page(bytes(length), offset=offset, length=length)


def test_a_write_has_at_most_four_mib(blob: BlobClient) -> None:
    blob.create_page_blob(8 * MIB)
    blob.upload_page(bytes(4 * MIB), offset=0, length=4 * MIB)
    with pytest.raises(HttpResponseError) as refused:
        blob.upload_page(bytes(4 * MIB + 512), offset=0, length=4 * MIB + 512)
    assert refused.value.status_code == 413


def test_a_blob_has_whole_pages(blob: BlobClient) -> None:
    with pytest.raises((HttpResponseError, ValueError)):
        blob.create_page_blob(1000)


def test_properties_metadata_and_settings(blob: BlobClient) -> None:
    settings = ContentSettings(content_type="application/x-vhd")
    blob.create_page_blob(1024, content_settings=settings, metadata={"state": "uploading", "version": "1.14.0"})
    found = blob.get_blob_properties()
    assert (found.size, found.blob_type, found.content_settings.content_type) == (
        1024,
        "PageBlob",
        "application/x-vhd",
    )
    assert found.metadata == {"state": "uploading", "version": "1.14.0"}
    blob.set_blob_metadata({"state": "complete"})
    assert blob.get_blob_properties().metadata == {"state": "complete"}
    blob.set_http_headers(ContentSettings(content_type="text/plain"))
    assert blob.get_blob_properties().content_settings.content_type == "text/plain"


def test_resizing_keeps_content_type_and_metadata(blob: BlobClient) -> None:
    blob.create_page_blob(2048, content_settings=ContentSettings(content_type="a/b"), metadata={"k": "v"})
    blob.upload_page(b"x" * 2048, offset=0, length=2048)
    blob.resize_blob(512)
    blob.resize_blob(1024)
    found = blob.get_blob_properties()
    assert (found.size, found.content_settings.content_type, found.metadata) == (1024, "a/b", {"k": "v"})
    assert blob.download_blob().readall() == b"x" * 512 + bytes(512)
    assert ranges(blob) == [(0, 511)]


def test_conditions(blob: BlobClient, tmp_path: Path) -> None:
    first = str(blob.create_page_blob(1024)["etag"])
    token = ManagedIdentityCredential().get_token("https://storage.azure.com/.default").token
    again = requests.put(
        blob.url,
        headers={
            "Authorization": f"Bearer {token}",
            "If-None-Match": "*",
            "x-ms-blob-type": "PageBlob",
            "x-ms-blob-content-length": "1024",
        },
        verify=str(tmp_path / "ca.pem"),
        timeout=10,
    )
    assert (again.status_code, again.headers["x-ms-error-code"]) == (409, "BlobAlreadyExists")
    second = str(blob.upload_page(bytes(512), offset=0, length=512)["etag"])
    assert first != second
    only_if: dict[str, Any] = {"match_condition": MatchConditions.IfNotModified}
    with pytest.raises(ResourceModifiedError):
        blob.upload_page(bytes(512), offset=0, length=512, etag=first, **only_if)
    blob.upload_page(bytes(512), offset=0, length=512, etag=second, **only_if)


def test_deleting(blob: BlobClient, world: World) -> None:
    blob.create_page_blob(1024)
    assert blob.exists()
    blob.delete_blob(delete_snapshots="include")
    assert not blob.exists()
    assert not list((world.folder / "blobs" / "acct" / "images").iterdir())
    with pytest.raises(ResourceNotFoundError):
        blob.get_blob_properties()


def test_making_a_blob_anew_empties_it(blob: BlobClient) -> None:
    blob.create_page_blob(1024)
    blob.upload_page(b"x" * 512, offset=0, length=512)
    blob.create_page_blob(1024)
    assert ranges(blob) == []
    assert blob.download_blob().readall() == bytes(1024)


@pytest.mark.parametrize(
    ("where", "code"),
    [({"container": "none"}, "ContainerNotFound"), ({"account": "none"}, "ResourceNotFound")],
)
def test_account_and_container_must_exist(
    server: BlobServer, identity: IdentityServer, where: dict[str, str], code: str
) -> None:
    with client(server, **where) as blob, pytest.raises(ResourceNotFoundError) as refused:
        blob.create_page_blob(1024)
    assert f"ErrorCode:{code}" in str(refused.value)


def test_only_tokens_for_storage_open_an_account(server: BlobServer, identity: IdentityServer, tmp_path: Path) -> None:
    url, trust = f"{server.account_url('acct')}/images/disk.vhd", str(tmp_path / "ca.pem")
    nobody = requests.get(url, verify=trust, timeout=10)
    assert (nobody.status_code, nobody.headers["x-ms-error-code"]) == (401, "NoAuthenticationInformation")
    key = requests.get(url, headers={"Authorization": "SharedKey acct:xyz"}, verify=trust, timeout=10)
    assert (key.status_code, key.headers["x-ms-error-code"]) == (403, "KeyBasedAuthenticationNotPermitted")
    other = ManagedIdentityCredential().get_token("https://management.azure.com/.default").token
    wrong = requests.get(url, headers={"Authorization": f"Bearer {other}"}, verify=trust, timeout=10)
    assert (wrong.status_code, wrong.headers["x-ms-error-code"]) == (401, "InvalidAuthenticationInfo")


def test_tokens_need_the_secret_header(
    server: BlobServer, identity: IdentityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IDENTITY_HEADER", "guess")
    with client(server) as blob, pytest.raises(ClientAuthenticationError):
        blob.create_page_blob(1024)


def test_a_changed_or_foreign_token_is_refused(world: World, identity: IdentityServer, tmp_path: Path) -> None:
    token, _ = issue(world, "https://storage.azure.com/")
    assert accepts(world, token, "https://storage.azure.com")
    content, signature = token.split(".")
    other = World(tmp_path / "other")
    for wrong in (f"{content[:-4]}AAA=.{signature}", issue(other, "https://storage.azure.com")[0], content, "", "a.b"):
        assert not accepts(world, wrong, "https://storage.azure.com")
    other.close()


def test_tokens_are_no_part_of_the_cloud_and_their_key_is_private(world: World, identity: IdentityServer) -> None:
    before = world.find()
    ManagedIdentityCredential().get_token("https://storage.azure.com/.default")
    assert world.find() == before
    assert (world.folder / "identity.key").stat().st_mode & 0o777 == 0o600


def test_planned_faults_strike_page_writes(blob: BlobClient, world: World) -> None:
    blob.create_page_blob(2048)
    world.plan_fault("update", "PageBlob", "fail", nth=2)
    blob.upload_page(b"x" * 512, offset=0, length=512)
    with pytest.raises(HttpResponseError) as refused:
        blob.upload_page(b"x" * 512, offset=512, length=512)
    assert refused.value.status_code == 503
    blob.upload_page(b"x" * 512, offset=512, length=512)
    assert ranges(blob) == [(0, 1023)]


def test_a_lost_answer_is_a_broken_connection_and_the_work_is_done(blob: BlobClient, world: World) -> None:
    blob.create_page_blob(1024)
    world.plan_fault("update", "PageBlob", "lost")
    with pytest.raises(Exception, match="[Cc]onnection|[Rr]emote"):
        blob.upload_page(b"x" * 512, offset=0, length=512)
    assert ranges(blob) == [(0, 511)]


def test_names_with_blanks_and_slashes(server: BlobServer, identity: IdentityServer, world: World) -> None:
    with client(server, name="a folder/disk #1.vhd") as blob:
        blob.create_page_blob(512)
        assert blob.exists()
    assert Blob(world, "acct", "images", "a folder/disk #1.vhd").record() is not None


def upload_vhd(blob: BlobClient, disk: int, footer: bytes) -> None:
    blob.create_page_blob(disk + 512)
    blob.upload_page(footer, offset=disk, length=512)


def test_a_finished_vhd_is_found_under_either_form_of_address(
    server: BlobServer, blob: BlobClient, world: World
) -> None:
    upload_vhd(blob, 2 * MIB, vhd_footer(2 * MIB))
    for uri in (blob.url, "https://acct.blob.core.windows.net/images/disk.vhd"):
        found, account = find_by_uri(world, uri, ACCOUNT, "image")
        assert account.id == ACCOUNT
        assert verify_vhd(found, uri) == 2 * MIB


@pytest.mark.parametrize(
    ("disk", "footer", "message"),
    [
        (2 * MIB, bytes(512), "conectix"),
        (2 * MIB, vhd_footer(MIB), "damaged"),
        (2 * MIB, vhd_footer(2 * MIB)[:-1] + b"x", "damaged"),
        (2 * MIB + 512, vhd_footer(2 * MIB + 512), "unsupported virtual size"),
        (2 * MIB, vhd_footer(2 * MIB)[:63] + b"\3" + vhd_footer(2 * MIB)[64:], "fixed"),
    ],
)
def test_other_vhds_are_refused(blob: BlobClient, world: World, disk: int, footer: bytes, message: str) -> None:
    upload_vhd(blob, disk, footer)
    found, _ = find_by_uri(world, blob.url, ACCOUNT, "image")
    with pytest.raises(CloudError, match=message):
        verify_vhd(found, blob.url)


def test_a_vhd_that_is_not_there_or_elsewhere_is_refused(server: BlobServer, world: World) -> None:
    for uri in (
        "https://acct.blob.core.windows.net/images/none.vhd",
        "https://other.blob.core.windows.net/images/disk.vhd",
        server.account_url("acct"),
    ):
        with pytest.raises(CloudError, match="InvalidParameter"):
            find_by_uri(world, uri, ACCOUNT, "image")
