"""WireGuard's keys, and the file that its clients read. Pure but for the making of keys.

Form of the file: wireguard.com, `wg(8)` and `wg-quick(8)`.
"""

import base64
import binascii
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

KEY_BYTES = 32
"""Length of every key of WireGuard."""


def new_private_key() -> str:
    """Return a new private key."""
    return _text(X25519PrivateKey.generate().private_bytes_raw())


def new_preshared_key() -> str:
    """Return a new symmetric key."""
    return _text(secrets.token_bytes(KEY_BYTES))


def public_key(private_key: str) -> str:
    """Return the public key of a private one; ValueError, without the key, when it is none."""
    private = X25519PrivateKey.from_private_bytes(base64.b64decode(checked_key(private_key)))
    return _text(private.public_key().public_bytes_raw())


def checked_key(key: str) -> str:
    """Return a key as it is; ValueError, without the key, when it is not base64 of 32 bytes in its one form."""
    try:
        raw = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    # Of the last character but the padding only four bits count: another form of the same bytes is no key for Kilo.
    if len(raw) != KEY_BYTES or _text(raw) != key:
        raise ValueError("must be a WireGuard key: base64 of 32 bytes, 44 characters, as `wg pubkey` prints it")
    return key


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@dataclass(frozen=True)
class Interface:
    """The client's own half of its file."""

    address: str
    """Its address in the mesh, without a length."""
    private_key: str | None
    """None when only the client itself has it; the file says where it belongs."""
    dns: Sequence[str] = ()
    mtu: int | None = None


@dataclass(frozen=True)
class Remote:
    """One machine that the client has a tunnel to."""

    name: str
    public_key: str
    allowed_ips: Sequence[str]
    endpoint: str | None
    """Where it is called; None when it calls first."""


def client_file(interface: Interface, remotes: Sequence[Remote], keepalive: int, preshared_key: str | None) -> str:
    """Return the file that `wg-quick` and the applications of WireGuard read."""
    lines = ["[Interface]"]
    if interface.private_key is None:
        lines.append("# PrivateKey = <the private key that belongs to the public key you handed in>")
    else:
        lines.append(f"PrivateKey = {interface.private_key}")
    lines.append(f"Address = {interface.address}/32")
    if interface.dns:
        lines.append(f"DNS = {', '.join(interface.dns)}")
    if interface.mtu is not None:
        lines.append(f"MTU = {interface.mtu}")
    for remote in remotes:
        lines += ["", "[Peer]", f"# {remote.name}", f"PublicKey = {remote.public_key}"]
        if preshared_key is not None:
            lines.append(f"PresharedKey = {preshared_key}")
        lines.append(f"AllowedIPs = {', '.join(remote.allowed_ips)}")
        if remote.endpoint is not None:
            lines.append(f"Endpoint = {remote.endpoint}")
        if keepalive:
            lines.append(f"PersistentKeepalive = {keepalive}")
    return "\n".join([*lines, ""])
