"""What a read_uncommitted consumer sees twice is counted with its offsets."""

from __future__ import annotations

from tests.judge.compare import OffsetRange
from tests.judge.log import Log, digest
from tests.judge.uncommitted import SeenTwice, seen_twice


def log_of(records: dict[int, str]) -> Log:
    log = Log()
    for offset, letter in records.items():
        log.append(offset, digest(None, letter.encode(), None, 0, 1))
    return log


def test_equal_readings_hide_nothing() -> None:
    log = log_of({0: "a", 2: "b"})
    assert seen_twice(log, log) == SeenTwice(0, 0, ())


def test_an_aborted_copy_that_was_copied_again_is_seen_twice() -> None:
    committed = log_of({0: "a", 5: "b", 6: "c"})
    uncommitted = log_of({0: "a", 1: "b", 2: "c", 4: "z", 5: "b", 6: "c"})
    assert seen_twice(committed, uncommitted) == SeenTwice(3, 2, (OffsetRange(1, 4),))


def test_ranges_end_where_a_committed_record_stands_between() -> None:
    committed = log_of({1: "a", 3: "b"})
    uncommitted = log_of({0: "a", 1: "a", 2: "b", 3: "b"})
    assert seen_twice(committed, uncommitted) == SeenTwice(
        2, 2, (OffsetRange(0, 0), OffsetRange(2, 2))
    )
