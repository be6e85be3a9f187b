"""What unpacked pieces of an image are, for those who make and those who take them."""

UNPACKED = 1024 * 1024
"""Most bytes that one step unpacks."""


class DamagedStream(Exception):
    """A packed stream that breaks its format, or a checksum in it."""


class Zeros(bytes):
    """A piece that is known to hold nothing but zeros, so that nobody need look."""

    __slots__ = ()
