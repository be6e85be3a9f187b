"""For all tests: this folder is where their shared helpers are imported from, and stringified outputs are errors."""

import asyncio
import os
from collections.abc import Iterator

import pytest

# An output that ends up in a name or a text without having been awaited fails instead of warning.
os.environ.setdefault("PULUMI_ERROR_OUTPUT_STRING", "true")


def _have_an_event_loop() -> None:
    """Make the event loop that Pulumi's outputs expect in the main thread, if there is none."""
    try:
        asyncio.get_event_loop()
    except RuntimeError:
        asyncio.set_event_loop(asyncio.new_event_loop())


_have_an_event_loop()


@pytest.fixture(autouse=True)
def an_event_loop_for_the_next() -> Iterator[None]:
    """Leave an event loop to the tests that follow, and to their shared fixtures: `asyncio.run` leaves none."""
    yield
    _have_an_event_loop()
