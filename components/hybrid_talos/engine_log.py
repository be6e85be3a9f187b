"""Progress of a long operation, shown by the engine while it runs.

A dynamic provider is a process of its own where pulumi.log knows no engine and would print each line to
stderr, which the engine keeps for ever. But the engine starts every provider with its own address as the
first argument, and messages sent there as ephemeral are shown and forgotten: on a terminal each one takes the place
of the last, in a log each one is a line.
"""

import functools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

_FIRST_SECONDS = 3.0
# A log gets a line a while, however long it takes: one more for each fifth of the time so far.
_SHARE = 5
_WINDOW_SECONDS = 15.0
_MB = 1_000_000
# A call that nobody holds is cancelled.
_sent: deque[grpc.Future] = deque(maxlen=16)
_MIB = 1024 * 1024


def note(line: str, *, warning: bool = False) -> None:
    """Say something that stays in the engine's diagnostics, in a preview too."""
    stub = _engine()
    if stub is not None:
        severity = engine_pb2.WARNING if warning else engine_pb2.INFO
        try:
            stub.Log(engine_pb2.LogRequest(severity=severity, message=line, urn=""), timeout=2)
        except grpc.RpcError:
            # What is said is no reason to fail.
            return


def engine_sender() -> Callable[[str], None]:
    """Return what shows one line in the engine, without waiting for it; it does nothing where no engine is."""
    stub = _engine()
    if stub is None:
        return lambda _: None

    def send(line: str) -> None:
        request = engine_pb2.LogRequest(severity=engine_pb2.INFO, message=line, urn="", ephemeral=True)
        _sent.append(stub.Log.future(request, timeout=2))

    return send


def _engine() -> engine_pb2_grpc.EngineStub | None:
    address = sys.argv[1] if len(sys.argv) > 1 else ""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()):
        return None
    return _stub(address)


@functools.lru_cache(maxsize=1)
def _stub(address: str) -> engine_pb2_grpc.EngineStub:
    # Kept, for a channel that nobody holds takes its calls with it.
    return engine_pb2_grpc.EngineStub(grpc.insecure_channel(address))


class Progress:
    """Counts bytes and says now and then how far they are; safe to use from many threads."""

    def __init__(self, label: str, send: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.label = label
        """What is counted."""
        self.total: int | None = None
        """Bytes that will come, when known."""
        self._send = send
        self._clock = clock
        self._lock = threading.Lock()
        self._started = self._said = clock()
        self._done = 0
        # The rate is that of the last seconds: an average over a broken connection would tell nothing.
        self._recent: deque[tuple[float, int]] = deque([(self._started, 0)])

    def add(self, count: int) -> None:
        """Count bytes; a line comes of it after three seconds, and then less and less often."""
        with self._lock:
            self._done += count
            now = self._clock()
            if now - self._said < max(_FIRST_SECONDS, (now - self._started) / _SHARE):
                return
            self._said = now
            while len(self._recent) > 1 and now - self._recent[0][0] > _WINDOW_SECONDS:
                self._recent.popleft()
            since, before = self._recent[0]
            self._recent.append((now, self._done))
            line = self._line((self._done - before) / (now - since))
        self._send(line)

    def _line(self, rate: float) -> str:
        speed, done = f"{rate / _MB:.1f} MB/s", f"{self._done / _MIB:.0f}"
        if not self.total:
            return f"{self.label}: {done} MiB, {speed}"
        left = max(self.total - self._done, 0) / rate if rate else 0
        percent = 100 * self._done / self.total
        return f"{self.label}: {percent:.0f} %, {speed}, {_time(left)} left ({done} of {self.total / _MIB:.0f} MiB)"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
