"""Progress of a long operation, shown by the engine while it runs.

A dynamic provider is a process of its own where pulumi.log knows no engine and would print each line to
stderr, which the engine keeps for ever. But the engine starts every provider with its own address as the
first argument, and messages sent there as ephemeral are shown and forgotten.
"""

import sys
import threading
import time
from collections.abc import Callable

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

_SECONDS_BETWEEN = 5.0
_MIB = 1024 * 1024


def note(line: str, *, warning: bool = False) -> None:
    """Say something that stays in the engine's diagnostics, in a preview too."""
    _sender(engine_pb2.WARNING if warning else engine_pb2.INFO, ephemeral=False)(line)


def engine_sender() -> Callable[[str], None]:
    """Return what shows one line in the engine; a function that does nothing where no engine is."""
    return _sender(engine_pb2.INFO, ephemeral=True)


def _sender(severity: int, *, ephemeral: bool) -> Callable[[str], None]:
    address = sys.argv[1] if len(sys.argv) > 1 else ""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        return lambda _: None
    stub = engine_pb2_grpc.EngineStub(grpc.insecure_channel(address))

    def send(line: str) -> None:
        request = engine_pb2.LogRequest(severity=severity, message=line, urn="", ephemeral=ephemeral)
        try:
            stub.Log(request, timeout=2)
        except grpc.RpcError:
            # What is said is no reason to fail.
            return

    return send


class Progress:
    """Counts bytes and says now and then how far they are; safe to use from many threads."""

    def __init__(self, label: str, send: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.total: int | None = None
        """Bytes that will come, when known."""
        self.label = label
        """What is counted."""
        self._send = send
        self._clock = clock
        self._lock = threading.Lock()
        self._started = self._said = clock()
        self._done = 0

    def add(self, count: int) -> None:
        """Count bytes; at most one line in five seconds comes of it."""
        with self._lock:
            self._done += count
            now = self._clock()
            if now - self._said < _SECONDS_BETWEEN:
                return
            self._said = now
            line = self._line(now - self._started)
        self._send(line)

    def _line(self, seconds: float) -> str:
        rate = self._done / seconds
        line = f"{self.label}: {self._done / _MIB:.0f} MiB, {rate / _MIB:.1f} MiB/s"
        if self.total:
            left = max(self.total - self._done, 0) / rate
            line += f", {100 * self._done / self.total:.0f} %, {left:.0f} s left"
        return line
