"""The lease of a blob, held while a run writes to it.

A provider process may outlive the engine that was killed, and go on writing while the next run does. Whoever
comes later takes the lease, and the service refuses the other from then on (learn.microsoft.com, Lease Blob).
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, BlobLeaseClient

# The longest that ends by itself: what a killed run leaves behind is gone within a minute.
_SECONDS = 60
_RENEW_EVERY = 20.0


def take_away(blob: BlobClient) -> None:
    """End the lease that an earlier run left; none is no error."""
    with suppress(ResourceExistsError, ResourceNotFoundError):
        BlobLeaseClient(blob).break_lease(lease_break_period=0)


@contextmanager
def held(blob: BlobClient) -> Iterator[BlobLeaseClient]:
    """Hold the lease of a blob that exists, whoever had it before."""
    take_away(blob)
    lease = blob.acquire_lease(lease_duration=_SECONDS)
    done = threading.Event()

    def renew() -> None:
        while not done.wait(_RENEW_EVERY):
            # One that was taken away shows in the next write.
            with suppress(AzureError):
                lease.renew()

    renewer = threading.Thread(target=renew, name="blob-lease", daemon=True)
    renewer.start()
    try:
        yield lease
    finally:
        done.set()
        renewer.join()
        # It may be lost, or gone with the blob; it ends by itself.
        with suppress(AzureError):
            lease.release()
