"""Jobs on threads, and sources read ahead: in order, in bounds, and ended by an error."""

import functools
import threading
from collections.abc import Callable, Iterator

import pytest
from hybrid_talos.parallel import ReadAhead, run_all
from hypothesis import given, settings
from hypothesis import strategies as st

WAIT = 30
"""Seconds after which a thread is taken to hang."""


# -- run_all --------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(count=st.integers(0, 60), workers=st.integers(1, 9))
def test_results_come_in_the_order_of_the_jobs(count: int, workers: int) -> None:
    assert run_all((functools.partial(pow, n, 2) for n in range(count)), workers=workers) == [
        n * n for n in range(count)
    ]


def test_jobs_run_at_once() -> None:
    barrier = threading.Barrier(4, timeout=WAIT)
    assert len(run_all([barrier.wait] * 8, workers=4)) == 8


def test_no_more_jobs_are_taken_than_fit() -> None:
    taken, done, most = 0, 0, 0
    lock = threading.Lock()

    def job() -> None:
        nonlocal done
        with lock:
            done += 1

    def jobs() -> Iterator[Callable[[], None]]:
        nonlocal taken, most
        for _ in range(500):
            taken += 1
            most = max(most, taken - done)
            yield job

    run_all(jobs(), workers=3)
    assert done == 500
    assert most <= 2 * 3 + 1


def test_the_first_error_ends_all() -> None:
    taken = 0

    def fail() -> None:
        raise OSError("full")

    def jobs() -> Iterator[Callable[[], object]]:
        nonlocal taken
        for n in range(10_000):
            taken += 1
            yield fail if n == 20 else (lambda: None)

    with pytest.raises(OSError, match="full"):
        run_all(jobs(), workers=2)
    assert taken < 100


def test_an_error_waits_for_what_runs() -> None:
    begun, ended = threading.Event(), threading.Event()
    go_on = threading.Event()

    def slow() -> None:
        begun.set()
        go_on.wait(WAIT)
        ended.set()

    def jobs() -> Iterator[Callable[[], object]]:
        yield slow
        begun.wait(WAIT)
        go_on.set()
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        run_all(jobs(), workers=2)
    assert ended.is_set()


# -- ReadAhead ------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(items=st.lists(st.integers()), pieces=st.integers(1, 5))
def test_what_is_read_ahead_comes_in_order(items: list[int], pieces: int) -> None:
    assert list(ReadAhead(iter(items), pieces=pieces)) == items


def test_it_is_no_more_ahead_than_allowed() -> None:
    taken = 0
    full = threading.Event()

    def source() -> Iterator[int]:
        nonlocal taken
        for n in range(100):
            taken += 1
            if taken == 4:
                full.set()
            yield n

    with ReadAhead(source(), pieces=3) as ahead:
        assert full.wait(WAIT)
        assert taken == 4
        assert next(ahead) == 0
        assert list(ahead) == list(range(1, 100))


def test_an_error_comes_where_its_item_would() -> None:
    def source() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("broken")

    ahead = ReadAhead(source(), pieces=5)
    assert [next(ahead), next(ahead)] == [1, 2]
    for _ in range(2):
        with pytest.raises(OSError, match="broken"):
            next(ahead)


def test_an_end_stays_an_end() -> None:
    ahead = ReadAhead(iter([1]), pieces=1)
    assert list(ahead) == [1]
    assert list(ahead) == []


def test_closing_ends_the_source_on_its_own_thread() -> None:
    closed = threading.Event()
    threads = []

    def source() -> Iterator[int]:
        threads.append(threading.current_thread())
        try:
            while True:
                yield 1
        finally:
            threads.append(threading.current_thread())
            closed.set()

    with ReadAhead(source(), pieces=2) as ahead:
        next(ahead)
    assert closed.wait(WAIT)
    assert threads[0] is threads[1] is not threading.current_thread()
    assert list(ahead) == []


def test_closing_frees_a_reader_that_waits() -> None:
    hang = threading.Event()

    def source() -> Iterator[int]:
        hang.wait(WAIT)
        yield 1

    ahead = ReadAhead(source(), pieces=1)
    found: list[list[int]] = []
    reader = threading.Thread(target=lambda: found.append(list(ahead)))
    reader.start()
    ahead.close()
    reader.join(WAIT)
    hang.set()
    assert found == [[]]
