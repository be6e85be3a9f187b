"""Encrypted files through sops and age: secrets reach sops by a pipe and come back by one, never by a disk."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hybrid_talos.etcd_snapshot import recipient_problem
from hybrid_talos.talos_yaml import load

OLDEST = (3, 9, 0)
"""The first with `sops encrypt` and `sops decrypt` (getsops/sops `CHANGELOG.md`)."""

_INSTALL = (
    "install sops (github.com/getsops/sops, releases; `brew install sops`; or "
    "`go install github.com/getsops/sops/v3/cmd/sops@latest`) and see that it is on PATH"
)
_SECONDS = 120
_PLAIN = ("sops",)
"""Keys at the top of an encrypted file that are sops' own."""

# getsops/sops cmd/sops/codes/codes.go
_NO_KEY = 128
_CHANGED = 51


class SopsError(Exception):
    """sops is missing or refuses; the message says why and what to do, and holds no secret."""


def find_sops(environ: Mapping[str, str] | None = None) -> str:
    """Return the path of a sops that is new enough.

    Raises:
        SopsError: there is none on PATH.
    """
    env = os.environ if environ is None else environ
    path = shutil.which("sops", path=env.get("PATH"))
    oldest = ".".join(map(str, OLDEST))
    if path is None:
        raise SopsError(f"sops is needed and not on PATH. Next: {_INSTALL}, version {oldest} or newer")
    try:
        done = subprocess.run(
            [path, "--disable-version-check", "--version"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=_without_own(env),
        )
    except (OSError, subprocess.TimeoutExpired):
        raise SopsError(f"sops at {path} does not run. Next: {_INSTALL}") from None
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", done.stdout)
    if done.returncode or found is None:
        raise SopsError(f"sops at {path} does not tell its version. Next: {_INSTALL}")
    version = (int(found[1]), int(found[2]), int(found[3]))
    if version < OLDEST:
        raise SopsError(f"sops {found[0]} at {path} is too old: {oldest} or newer is needed. Next: {_INSTALL}")
    return path


def check_recipients(recipients: Sequence[str]) -> None:
    """Raise SopsError unless there is at least one recipient and each is a public key of age."""
    if not recipients:
        raise SopsError("no recipient: name the public key of each who may read the files with --age (age1...)")
    for number, recipient in enumerate(recipients, start=1):
        problem = recipient_problem(recipient)
        if problem:
            # Not shown: somebody may have pasted the private key.
            raise SopsError(f"--age, number {number}: {problem}")


def encrypt(document: Mapping[str, Any], recipients: Sequence[str]) -> bytes:
    """Return a document as an encrypted YAML file that the holder of any recipient's key can read.

    Raises:
        SopsError: sops is missing or failed, or left a value readable.
    """
    check_recipients(recipients)
    done = _run(
        # JSON, whose texts nobody takes for numbers, as YAML's may be.
        ["encrypt", "--input-type", "json", "--output-type", "yaml", "--age", ",".join(recipients)],
        ["--filename-override", "secrets.yaml", "/dev/stdin"],
        # No rules, keys or recipients of the user's own setup: they may add readers or leave values readable. Nor is
        # a private key needed for writing.
        environment=_without_own(os.environ),
        given=json.dumps(document).encode(),
    )
    if done.returncode:
        raise SopsError(f"sops could not encrypt (it ended with {done.returncode}). Next: see that it runs by itself")
    (written,) = load(done.stdout.decode(), "what sops wrote")
    readable = [
        name for name, value in _leaves({k: v for k, v in written.items() if k not in _PLAIN}) if not _closed(value)
    ]
    if readable or "sops" not in written:
        raise SopsError(f"sops left values readable ({', '.join(readable[:5])}), so nothing was written")
    return done.stdout


def decrypt(path: Path) -> dict[str, Any]:
    """Return the document of an encrypted YAML file; the private key is found by sops, as in `SOPS_AGE_KEY_FILE`.

    Raises:
        SopsError: sops is missing, has no key that fits, or the file was changed since.
    """
    done = _run(["decrypt", "--input-type", "yaml", "--output-type", "json", str(path.absolute())])
    if done.returncode == _NO_KEY:
        raise SopsError(
            f"{path}: none of the private keys at hand reads it. Next: SOPS_AGE_KEY_FILE=<file with the key of one of "
            "its recipients>"
        )
    if done.returncode == _CHANGED:
        raise SopsError(f"{path}: was changed after it was encrypted (its checksum does not fit)")
    if done.returncode:
        raise SopsError(f"{path}: sops could not decrypt it (it ended with {done.returncode})")
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SopsError(f"{path}: holds something else than a mapping of keys to values")
    return found


def is_encrypted(document: Mapping[str, Any]) -> bool:
    """Return whether a document that was read as it stands is one of sops."""
    metadata = document.get("sops")
    return isinstance(metadata, Mapping) and "mac" in metadata


def _without_own(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith("SOPS_")}


def _run(
    words: Sequence[str],
    more: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    given: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    command = [find_sops(), *words, *more]
    try:
        # From the root: sops looks for .sops.yaml in this folder and all above.
        return subprocess.run(
            command, input=given, capture_output=True, timeout=_SECONDS, check=False, cwd="/", env=environment
        )
    except subprocess.TimeoutExpired:
        raise SopsError(f"sops did not end within {_SECONDS} seconds") from None


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, nested in value.items():
            yield from _leaves(nested, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for nested in value:
            yield from _leaves(nested, f"{path}[]")
    else:
        yield path, value


def _closed(value: Any) -> bool:
    # An empty text or nothing at all stays as it is: there is nothing in it (getsops/sops aes/cipher.go).
    return value in (None, "") or (isinstance(value, str) and value.startswith("ENC[AES256_GCM,"))
