"""What tells a whole snapshot of etcd from a part of one: the digest that etcd puts behind it."""

import hashlib

_DIGEST = hashlib.sha256().digest_size
# etcd's database is made of pages; the digest is what is left over (etcd-io/etcd etcdutl/snapshot, hasChecksum).
_PAGE = 512


class SnapshotCheck:
    """Sees a snapshot pass by, piece by piece, and says at its end whether it is whole."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._tail = b""
        self.size = 0

    def add(self, data: bytes) -> None:
        """See the next piece."""
        self.size += len(data)
        held = self._tail + data
        self._hash.update(held[:-_DIGEST])
        self._tail = held[-_DIGEST:]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of what was seen, without the digest at its end, in hexadecimal."""
        return self._hash.hexdigest()

    def problem(self) -> str | None:
        """Return why this is no whole snapshot, or None."""
        if self.size <= _PAGE or self.size % _PAGE != _DIGEST:
            return f"ends without etcd's digest, after {self.size} bytes"
        if self._hash.digest() != self._tail:
            return "does not match etcd's own digest"
        return None
