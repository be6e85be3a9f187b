"""Many small jobs at once, never more than fit into memory; and one slow source read ahead of its use."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Self, TypeVar

T = TypeVar("T")


def run_all(jobs: Iterable[Callable[[], T]], *, workers: int) -> list[T]:
    """Run the jobs on ``workers`` threads and return their results in the order of the jobs.

    At most twice as many jobs as workers are taken from ``jobs`` ahead of time, which bounds what they hold.
    The first error stops the taking, waits for what runs, and is raised.
    """
    order: list[Future[T]] = []
    pending: set[Future[T]] = set()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for job in jobs:
                if len(pending) >= 2 * workers:
                    done, pending = wait(pending, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                future = pool.submit(job)
                pending.add(future)
                order.append(future)
            return [future.result() for future in order]
        except BaseException:
            for future in pending:
                future.cancel()
            raise


class ReadAhead(Iterator[T]):
    """What ``source`` yields, made on a thread of its own that is at most ``pieces`` ahead.

    An error of ``source`` is raised where its next item would be. Close it, or use it with ``with``: a reader that
    stops early then stops the source too, after the item that it is at; nobody waits for that.
    """

    def __init__(self, source: Iterator[T], *, pieces: int) -> None:
        self._source = source
        self._pieces = pieces
        self._ready: deque[T] = deque()
        self._changed = threading.Condition()
        self._ended = self._closed = False
        self._error: BaseException | None = None
        # A source that hangs must not keep the process alive.
        threading.Thread(target=self._fill, name="read-ahead", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended or self._closed)
            if self._ready:
                self._changed.notify()
                return self._ready.popleft()
        if self._error is not None:
            raise self._error
        raise StopIteration

    def close(self) -> None:
        """Stop the source, and yield nothing more."""
        with self._changed:
            self._closed = True
            self._ready.clear()
            self._changed.notify_all()

    def _fill(self) -> None:
        try:
            for item in self._source:
                if not self._add(item):
                    break
        except BaseException as error:
            self._error = error
        finally:
            # Generators have one; it runs their `finally` here, on their own thread.
            with suppress(Exception):
                getattr(self._source, "close", bool)()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _add(self, item: T) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: len(self._ready) < self._pieces or self._closed)
            if not self._closed:
                self._ready.append(item)
                self._changed.notify_all()
            return not self._closed
