"""A proof of a fault is false where the fault was not."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.faultkit import bites
from tests.faultkit.bites import (
    OpenAt,
    abort_evidence,
    aborted_in,
    aborted_within,
    begin_in_transaction,
    has_left,
    must_have_met,
    repeated,
    was_slowed,
    was_throttled,
)
from tests.judge.reading import At, ClusterAccess, Ends, ReadingError
from tests.judge.verdict import Evidence

ABORT, COMMIT = 0, 1
ORDERS = At("orders", 0)


def batch(offset: int, kind: int | None, *, time_ms: int = 0, producer: int = 7) -> bytes:
    """A marker of this kind, or data without one, by hand from Kafka's layout."""
    key = b"data" if kind is None else struct.pack(">hh", 0, kind)
    record = bytes([32, 0, 0, 0, 8]) + key + bytes([12]) + bytes(6) + bytes([0])
    attributes = 0x10 if kind is None else 0x30
    times = time_ms, time_ms
    inner = struct.pack(">ibihiqqqhii", 0, 2, 0, attributes, 0, *times, producer, 3, -1, 1)
    return struct.pack(">qi", offset, len(inner) + len(record)) + inner + record


def write(directory: Path, at: At, *batches: bytes) -> None:
    """A segment with these batches."""
    folder = directory / f"{at.topic}-{at.partition}"
    folder.mkdir(parents=True)
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches))


def write_marker(directory: Path, at: At, kind: int, time_ms: int) -> None:
    """A segment with one marker."""
    write(directory, at, batch(40, kind, time_ms=time_ms))


def test_an_abort_marker_behind_the_begin_of_a_fault_proves_an_open_transaction(
    tmp_path: Path,
) -> None:
    write_marker(tmp_path, ORDERS, ABORT, 5_000)
    found = aborted_within(
        "frozen", 3_500, 6_000, aborted_in([tmp_path], [At("orders", 7), ORDERS])
    )
    assert (found.fault, found.bit) == ("frozen, in open transactions", True)
    assert found.detail == "abort marker in orders-0 @ 40, 1.5 s after"


def test_an_abort_before_the_fault_or_after_the_next_one_began_or_a_commit_proves_nothing(
    tmp_path: Path,
) -> None:
    write_marker(tmp_path, ORDERS, ABORT, 5_000)
    write_marker(tmp_path, At("orders", 1), COMMIT, 9_000)
    both = aborted_in([tmp_path], [ORDERS, At("orders", 1)])
    assert not aborted_within("frozen", 5_001, 10_000, both).bit
    assert not aborted_within("frozen", 3_500, 5_000, both).bit
    assert not aborted_within("frozen", 0, 10_000, []).bit


def test_a_kill_is_proven_by_the_abort_of_its_own_transaction_and_not_by_that_of_a_later_one(
    tmp_path: Path,
) -> None:
    write(tmp_path, ORDERS, batch(40, None), batch(41, COMMIT), batch(50, None), batch(51, ABORT))
    found = [abort_evidence("kill", [OpenAt(ORDERS, at)], [tmp_path]) for at in (40, 50, 60)]
    assert [each.bit for each in found] == [False, True, False]
    assert found[1].detail == "abort marker in orders-0 @ 51"
    assert abort_evidence("kill", [OpenAt(ORDERS, 40), OpenAt(ORDERS, 50)], [tmp_path]).bit


def test_a_transaction_is_ended_by_a_marker_of_its_own_producer(tmp_path: Path) -> None:
    others = batch(41, None, producer=8), batch(42, COMMIT, producer=8)
    write(tmp_path, ORDERS, batch(40, None), *others, batch(43, ABORT))
    mine, other = (abort_evidence("kill", [OpenAt(ORDERS, at)], [tmp_path]) for at in (40, 41))
    assert (mine.bit, other.bit) == (True, False)


def test_a_line_is_slow_when_its_answers_are_and_were_not_before() -> None:
    assert was_slowed(0.004, 0.101, 0.05)[0]
    assert not was_slowed(0.004, 0.005, 0.05)[0], "a delay that is not there"
    assert not was_slowed(0.150, 0.160, 0.05)[0], "a machine that was as slow without it"


def test_a_quota_bites_when_it_holds_and_more_went_through_before() -> None:
    assert was_throttled(2.0e6, 0.9e6, 1.8e6)[0]
    assert not was_throttled(1.0e6, 0.9e6, 1.8e6)[0], "never more than the quota"
    assert not was_throttled(9.0e6, 2.0e6, 1.8e6)[0], "more than the quota allows"
    assert not was_throttled(2.0e6, 0.0, 1.8e6)[0], "nothing came through at all"


def test_a_worker_that_ends_with_an_error_has_not_left_unless_it_had_no_time() -> None:
    assert has_left(0, "") == (True, "exit 0")
    assert has_left(1, '"error": "not drained within 10 s; cancelled"') == (
        True,
        "exit 1, not drained in time",
    )
    assert has_left(1, "Traceback (most recent call last):") == (False, "exit 1")
    assert has_left(-9, "not drained within 10 s") == (False, "exit -9")


def test_each_sure_fault_must_have_met_an_open_transaction_where_these_last() -> None:
    met, missed = Evidence("cut", bit=True), Evidence("half-open", bit=False)

    assert must_have_met([met, missed, missed], [True, True, False], is_lasting=True) == [
        met,
        missed,
    ]


def test_some_fault_must_have_met_one_where_transactions_are_over_at_once() -> None:
    met, missed = Evidence("cut", bit=True), Evidence("half-open", bit=False)

    (some,) = must_have_met([missed, met], [True, False], is_lasting=False)
    (none,) = must_have_met([missed, missed], [True, False], is_lasting=False)

    assert (some.bit, some.detail) == (True, "1 of 2 faults")
    assert not none.bit
    assert must_have_met([missed], [False], is_lasting=False) == []


def test_a_fault_begins_after_an_answer_and_stays_where_a_transaction_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = ReadingError("no topic yet")
    ended, opened = {ORDERS: Ends(4, 4)}, {ORDERS: Ends(4, 6)}
    answers: list[ReadingError | dict[At, Ends]] = [silent, ended, ended, opened, opened, opened]
    done: list[str] = []

    def ends_of(*_: object) -> dict[At, Ends]:
        given = answers.pop(0)
        if isinstance(given, ReadingError):
            raise given
        done.append("asked")
        return given

    monkeypatch.setattr(bites, "ends_of", ends_of)
    monkeypatch.setattr(bites, "hold_sync", lambda *_, **__: None)
    monkeypatch.setattr(ClusterAccess, "admin", lambda _: None)
    found = begin_in_transaction(
        lambda: done.append("begun"),
        lambda: done.append("healed"),
        ClusterAccess("east:9092"),
        [ORDERS],
        deadline_s=10,
        what="a transaction",
    )

    assert found == [OpenAt(ORDERS, 4)]
    assert done == [
        *("asked", "begun", "asked", "healed"),
        *("asked", "begun", "asked", "asked"),
    ]


@pytest.mark.parametrize(
    ("met", "times", "last"),
    [([True], 3, 1), ([False, True], 3, 2), ([False, False, False], 3, 3), ([False], 1, 1)],
    ids=["at once", "the second time", "never", "once is enough"],
)
def test_a_fault_is_repeated_until_it_met_what_it_has_to_and_the_last_one_counts(
    met: list[bool], times: int, last: int
) -> None:
    made = iter(range(1, 10))
    found = repeated(lambda: next(made), lambda one: met[one - 1], times=times, awake_s=0.001)
    assert (found, next(made)) == (last, last + 1)
