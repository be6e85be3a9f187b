"""Virtual hard disks in page blobs: what Azure takes as the source of a disk or an image.

Sources: learn.microsoft.com "Prepare a Windows VHD or VHDX to upload to Azure" (fixed, whole MiB), microsoft
"Virtual Hard Disk Image Format Specification" (footer), osbuild/osbuild-composer#111 and Azure/azure-xplat-cli#1784
(the words of the refusals), Azure/azure-cli#6179.
"""

import struct

from ..world import CloudError
from .blob_store import Blob

FOOTER = 512
MIB = 1 << 20
_FIXED = 2


def verify_vhd(blob: Blob, uri: str) -> int:
    """Return the virtual size in bytes of a finished fixed VHD; raise CloudError for anything else."""
    size = blob.size()
    virtual = size - FOOTER
    if size < FOOTER + MIB:
        raise CloudError("InvalidParameter", f"Only blobs formatted as VHDs can be imported: {uri} is too small.")
    footer = blob.read(virtual, FOOTER)
    if footer[:8] != b"conectix":
        raise CloudError(
            "InvalidParameter",
            f"The specified cookie value in VHD footer indicates that disk '{blob.path.name}' with blob {uri} is not a "
            "supported VHD. Disk is expected to have cookie value 'conectix'.",
        )
    (current,) = struct.unpack_from(">Q", footer, 48)
    kind, checksum = struct.unpack_from(">II", footer, 60)
    if kind != _FIXED:
        raise CloudError("InvalidParameter", f"Only fixed VHDs can be imported; the disk type in {uri} is {kind}.")
    if checksum != footer_checksum(footer) or current != virtual:
        raise CloudError(
            "InvalidParameter", f"Only blobs formatted as VHDs can be imported: the footer of {uri} is damaged."
        )
    if virtual % MIB:
        raise CloudError(
            "InvalidParameter",
            f"The VHD {uri} has an unsupported virtual size of {virtual} bytes.  The size must be a whole number "
            "(in MBs).",
        )
    return virtual


def footer_checksum(footer: bytes) -> int:
    """Return a footer's checksum: the one's complement of its bytes' sum, without the checksum itself."""
    return ~(sum(footer) - sum(footer[64:68])) & 0xFFFFFFFF
