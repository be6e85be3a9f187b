"""For all tests: this folder is where their shared helpers are imported from, and stringified outputs are errors."""

import asyncio
import os
from collections.abc import Iterator

import pytest

# An output that ends up in a name or a text without having been awaited fails instead of warning.
os.environ.setdefault("PULUMI_ERROR_OUTPUT_STRING", "true")


@pytest.fixture(autouse=True)
def event_loop_of_its_own() -> Iterator[None]:
    """Give each test the event loop that Pulumi's outputs expect in the main thread: `asyncio.run` leaves none."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
