"""Pages written many at once, and runs that go on from a checkpoint."""

import random
import threading
from collections.abc import Iterator

import pytest
from hybrid_talos.page_writer import Checkpoint, SourceChanged, write_pages

PAGES = [(n * 4096, random.Random(n).randbytes(1024)) for n in range(200)]


class Target:
    """Remembers what was written; fails at one page when told to."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.pages: dict[int, bytes] = {}
        self.prepared: list[int] = []
        self.checkpoints: list[Checkpoint] = []
        self._fail_at = fail_at
        self._lock = threading.Lock()

    def write(self, offset: int, data: bytes) -> None:
        if offset == self._fail_at:
            raise OSError("gone")
        with self._lock:
            self.pages[offset] = data

    def save(self, checkpoint: Checkpoint) -> None:
        with self._lock:
            done = dict(self.pages)
        # The very promise: all pages below it are there.
        assert all(done[offset] == data for offset, data in PAGES if offset + len(data) <= checkpoint.end)
        self.checkpoints.append(checkpoint)


def write(target: Target, pages: list[tuple[int, bytes]], resume: Checkpoint | None = None) -> int:
    return write_pages(
        pages,
        target.write,
        prepare=target.prepared.append,
        resume=resume,
        save=target.save,
        checkpoint_every=16 * 1024,
    )


def broken(at: int) -> tuple[Target, Checkpoint]:
    target = Target(fail_at=at)
    with pytest.raises(OSError, match="gone"):
        write(target, PAGES)
    return target, target.checkpoints[-1]


def test_every_page_is_written_once_and_announced_in_order() -> None:
    target = Target()
    assert write(target, PAGES) == 200 * 1024
    assert target.pages == dict(PAGES)
    assert target.prepared == [offset + len(data) for offset, data in PAGES]
    assert [c.end for c in target.checkpoints] == sorted({c.end for c in target.checkpoints})
    assert len(target.checkpoints) >= 3


def test_a_run_that_goes_on_writes_only_what_is_missing() -> None:
    target, last = broken(100 * 4096)
    assert 0 < last.end <= 100 * 4096
    target._fail_at = None
    kept = {offset: data for offset, data in target.pages.items() if offset < last.end}
    target.pages = dict(kept)
    sent = write(target, PAGES, last)
    assert sent == sum(len(data) for offset, data in PAGES if offset >= last.end)
    assert target.prepared[-1] == PAGES[-1][0] + 1024
    assert target.pages == dict(PAGES)
    assert target.checkpoints[-1].end > last.end


def test_checkpoints_of_a_run_that_went_on_are_those_of_one_that_did_not_break() -> None:
    _, last = broken(100 * 4096)
    rest, whole = Target(), Target()
    rest.pages = dict(PAGES)
    write(rest, PAGES, last)
    write(whole, PAGES)
    assert rest.checkpoints[-1] == whole.checkpoints[-1]


@pytest.mark.parametrize("at", [0, 30], ids=["first", "later"])
def test_another_image_is_noticed_before_anything_is_written(at: int) -> None:
    _, last = broken(100 * 4096)
    other = list(PAGES)
    other[at] = (other[at][0], b"x" * 1024)
    target = Target()
    with pytest.raises(SourceChanged):
        write(target, other, last)
    assert target.pages == {}


def test_an_image_that_ends_before_the_checkpoint_is_another() -> None:
    _, last = broken(100 * 4096)
    with pytest.raises(SourceChanged):
        write(Target(), PAGES[:20], last)


def test_an_image_cut_into_other_pages_is_another() -> None:
    _, last = broken(100 * 4096)
    halves = [part for offset, data in PAGES for part in ((offset, data[:512]), (offset + 512, data[512:]))]
    with pytest.raises(SourceChanged):
        write(Target(), halves, last)


def test_few_pages_are_read_ahead() -> None:
    gate, taken = threading.Event(), []

    def pages() -> Iterator[tuple[int, bytes]]:
        for page in PAGES:
            taken.append(page[0])
            if len(taken) == 60:
                gate.set()
            yield page

    # Nothing is written until 60 pages were read, which must not happen: the wait ends by its time limit.
    with pytest.raises(TimeoutError):
        write_pages(pages(), lambda *_: _raise_unless(gate.wait(0.5)))
    assert len(taken) <= 24


def _raise_unless(value: bool) -> None:
    if not value:
        raise TimeoutError


def test_an_error_of_the_reading_is_raised_after_what_is_under_way() -> None:
    def pages() -> Iterator[tuple[int, bytes]]:
        yield from PAGES[:3]
        raise ValueError("damaged")

    target = Target()
    with pytest.raises(ValueError, match="damaged"):
        write_pages(pages(), target.write)
    assert set(target.pages) <= {offset for offset, _ in PAGES[:3]}
