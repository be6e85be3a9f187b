"""Snapshots in Azure Blob Storage: the real client on Azurite, with a token as azure-identity gives it."""

import base64
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyrage
import pytest
from azure.core.credentials import AccessToken
from azure.storage.blob import BlobServiceClient
from hybrid_talos import azure_blob_client, etcd_snapshot
from hybrid_talos.snapshot_azure import AzureStore, Container
from hybrid_talos.snapshot_store import Kept, prune
from hybrid_talos.work_provider import WorkError

from lab.azurite import ACCOUNT, KEY, azurite
from lab.certs import certificates
from lab.node_tools import provide
from tests.scripted_talosctl import CP, scripted_talosctl

pytestmark = pytest.mark.real

ONE, TWO = (f"demo-2026010{day}T000000Z.db.age" for day in (1, 2))
LARGE = random.Random(7).randbytes(20 << 20)
"""More than two blocks."""


class Identity:
    """A token of the form that Azurite looks at: it knows no signatures (Azurite README, "OAuth configuration")."""

    def get_token(self, *_: str, **__: Any) -> AccessToken:
        now = int(time.time())
        tenant = "00000000-0000-0000-0000-000000000000"
        claims = {
            "aud": "https://storage.azure.com",
            "iss": f"https://sts.windows.net/{tenant}/",
            "iat": now - 60,
            "nbf": now - 60,
            "exp": now + 3600,
        }
        parts = [json.dumps(part).encode() for part in ({"alg": "none", "typ": "JWT"}, claims)]
        text = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in [*parts, b"none"])
        return AccessToken(text, now + 3600)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    trust = certificates(tmp_path_factory.mktemp("certificates"))
    options = ("--oauth", "basic", "--cert", str(trust.server), "--key", str(trust.server))
    with azurite(provide(), options, scheme="https") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("REQUESTS_CA_BUNDLE", str(trust.bundle))
        patch.setattr(azure_blob_client, "deployment_credential", lambda *_: Identity())
        with BlobServiceClient(server.url, {"account_name": ACCOUNT, "account_key": KEY}) as service:
            service.create_container("backups")
        yield server.url


def store(url: str, folder: str) -> AzureStore:
    return AzureStore(Container.of(f"{url}/backups/{folder}"))


def blocks(url: str, folder: str) -> list[str]:
    """Return everything below a folder, what was never made a blob too."""
    with BlobServiceClient(url, {"account_name": ACCOUNT, "account_key": KEY}) as service:
        found = service.get_container_client("backups").list_blobs(
            name_starts_with=f"{folder}/", include=["uncommittedblobs"]
        )
        return [blob.name for blob in found if blob.size]


def pieces(data: bytes, problem: str = "") -> Iterator[bytes]:
    for at in range(0, len(data), 1 << 16):
        yield data[at : at + (1 << 16)]
    if problem:
        raise WorkError(problem)


def test_large_and_small_snapshots_come_back_as_they_were(url: str) -> None:
    own = store(url, "prod")
    own.put(ONE, pieces(LARGE))
    own.put(TWO, pieces(b"small"))
    store(url, "other").put(TWO, pieces(b"elsewhere"))
    assert b"".join(own.get(ONE)) == LARGE
    assert b"".join(own.get(TWO)) == b"small"
    assert own.names() == [Kept(ONE, len(LARGE)), Kept(TWO, 5)]
    assert prune(own, "demo", 1) == [ONE]
    assert [one.name for one in own.names()] == [TWO]
    own.remove(ONE)


def test_one_that_breaks_off_is_no_blob(url: str) -> None:
    own = store(url, "broken")
    with pytest.raises(WorkError, match="not whole"):
        own.put(ONE, pieces(LARGE, "not whole"))
    assert own.names() == []
    assert blocks(url, "broken") == []


def test_one_that_is_there_is_not_written_over(url: str) -> None:
    own = store(url, "once")
    for content in (b"second", LARGE):
        own.put(ONE, pieces(b"first"))
        with pytest.raises(WorkError, match=r"backups/once/demo-.* is there already"):
            own.put(ONE, pieces(content))
        assert b"".join(own.get(ONE)) == b"first"
        own.remove(ONE)


def test_the_snapshot_before_a_risky_step_goes_there_encrypted(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = pyrage.x25519.Identity.generate()
    talos, whole = scripted_talosctl(tmp_path, monkeypatch, LARGE)
    given = {"cluster": "demo", "directory": f"{url}/backups/risky", "recipients": [str(identity.to_public())]}
    name = etcd_snapshot.take(talos, CP, etcd_snapshot.Target.of(given))
    own = store(url, "risky")
    assert [one.name for one in own.names()] == [name]
    assert pyrage.decrypt(b"".join(own.get(name)), [identity]) == whole


def test_what_is_not_there_is_named(url: str) -> None:
    with pytest.raises(WorkError, match=r"is not there \(BlobNotFound\)"):
        list(store(url, "prod").get("demo-20300101T000000Z.db.age"))
    other = AzureStore(Container.of(f"{url}/elsewhere"))
    with pytest.raises(WorkError, match=r"is not there \(ContainerNotFound\).*make the container"):
        other.put(ONE, pieces(b"x"))


def test_a_server_that_is_not_there_is_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_blob_client, "_RETRIES", 0)
    parts = urlsplit(url)
    nobody = url.replace(str(parts.port), "9")
    with pytest.raises(WorkError, match="cannot be reached"):
        AzureStore(Container.of(f"{nobody}/backups")).names()
