"""Many small jobs at once, never more than fit into memory."""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

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
