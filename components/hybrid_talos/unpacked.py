"""What unpacked pieces of an image are, for those who make and those who take them."""

UNPACKED = 1024 * 1024
"""Most bytes that one step unpacks."""
_ZEROS = bytes(4 * UNPACKED)


class DamagedStream(Exception):
    """A packed stream that breaks its format, or a checksum in it."""


class Zeros(bytes):
    """A piece that is known to hold nothing but zeros, so that nobody need look."""

    __slots__ = ()


def is_zero(data: bytes | memoryview) -> bool:
    """Say whether up to 4 MiB are nothing but zeros."""
    # The one comparison with a slice that neither copies it nor goes byte by byte in Python's own loop.
    return _ZEROS.startswith(data)
