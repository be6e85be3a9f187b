"""What the engine is told of a long operation."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from hybrid_talos.engine_log import Progress, engine_sender, note
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

MIB = 1 << 20


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def progress(total: int | None) -> tuple[Progress, Clock, list[str]]:
    said: list[str] = []
    clock = Clock()
    made = Progress("azure-amd64.vhd.zst", said.append, clock)
    made.total = total
    return made, clock, said


def test_a_line_tells_percent_rate_and_what_is_left() -> None:
    counted, clock, said = progress(200 * MIB)
    counted.add(10 * MIB)
    clock.now += 4
    counted.add(10 * MIB)
    assert said == ["azure-amd64.vhd.zst: 10 %, 5.2 MB/s, 36 s left (20 of 200 MiB)"]


def test_without_a_total_there_is_no_percent() -> None:
    counted, clock, said = progress(None)
    clock.now += 4
    counted.add(8 * MIB)
    assert said == ["azure-amd64.vhd.zst: 8 MiB, 2.1 MB/s"]


def test_the_rate_is_that_of_the_last_seconds() -> None:
    counted, clock, said = progress(400 * MIB)
    for _ in range(100):
        clock.now += 1
        counted.add(MIB)
    for _ in range(60):
        clock.now += 1
        counted.add(4 * MIB)
    assert ", 4.2 MB/s, " in said[-1]
    assert "min" in said[3]


def test_lines_become_rarer() -> None:
    counted, clock, said = progress(10_000 * MIB)
    for _ in range(1000):
        clock.now += 1
        counted.add(MIB)
    assert 10 < len(said) < 40


class Engine(engine_pb2_grpc.EngineServicer):
    def __init__(self) -> None:
        self.logged: list[engine_pb2.LogRequest] = []
        self.came = threading.Event()

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service names it
        self.logged.append(request)
        self.came.set()
        return empty_pb2.Empty()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    made = Engine()
    server = grpc.server(ThreadPoolExecutor(2))
    engine_pb2_grpc.add_EngineServicer_to_server(made, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setattr(sys, "argv", ["provider", f"127.0.0.1:{port}"])
    yield made
    server.stop(0)


def test_progress_is_shown_and_forgotten_and_a_note_stays(engine: Engine) -> None:
    engine_sender()("half way")
    assert engine.came.wait(10)
    note("look here", warning=True)
    first, second = engine.logged
    assert (first.message, first.ephemeral, first.severity) == ("half way", True, engine_pb2.INFO)
    assert (second.message, second.ephemeral, second.severity) == ("look here", False, engine_pb2.WARNING)


@pytest.mark.parametrize("argv", [["provider"], ["provider", "--flag"], ["provider", "127.0.0.1:9"]])
def test_no_engine_is_no_error(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", argv)
    engine_sender()("half way")
    note("look here")
