"""Aborted transactions: found from headers and the answer's list, ended by their markers."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire import batch, engine
from mirrorfleet.wire.aborted import Marker, marker_of
from mirrorfleet.wire.copybatch import LateAbort
from tests.unit.wire.batches import (
    batch_of,
    copied,
    fetched,
    golden,
    header_of,
    marker,
    patched,
    some,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mirrorfleet.wire.batch import BatchHeader

ALICE, BOB = 11, 12
UNTOLD = [
    batch_of(some(1), producer_id=ALICE),
    marker(1, ALICE, 0),
    batch_of(some(2, first=2), producer_id=ALICE),
    batch_of(some(1, first=4), producer_id=BOB),
    batch_of(some(1, first=5), producer_id=ALICE),
    marker(6, ALICE, 0),
    batch_of(some(1, first=7)),
    marker(8, BOB, 1),
]
"""Two aborted transactions, of which a broker may tell of one or none."""


def test_only_the_aborted_producers_transactional_batches_are_left_out() -> None:
    log = [
        batch_of(some(3), producer_id=ALICE),
        batch_of(some(2, first=3), producer_id=BOB),
        marker(5, ALICE, 0),
        batch_of(some(2, first=6), producer_id=ALICE),
        marker(8, BOB, 1),
        marker(9, ALICE, 1),
        batch_of(some(1, first=10)),
    ]
    walked = fetched(*log, aborted=[(ALICE, 0)])
    assert [batch.first for batch in walked.batches] == [3, 6, 10]
    assert (walked.aborted_records, walked.control_batches) == (3, 3)
    assert (walked.records, walked.next_offset) == (5, 11)


def test_without_an_aborted_list_every_batch_is_committed() -> None:
    walked = fetched(batch_of(some(3), producer_id=ALICE), marker(3, ALICE, 1))
    assert copied(walked) == some(3)
    assert walked.control_batches == 1


def test_a_transaction_that_aborts_later_does_not_touch_its_producers_earlier_records() -> None:
    log = [
        batch_of(some(2), producer_id=ALICE),
        marker(2, ALICE, 1),
        batch_of(some(2, first=3), producer_id=ALICE),
        marker(5, ALICE, 0),
    ]
    walked = fetched(*log, aborted=[(ALICE, 3)])
    assert copied(walked) == some(2)
    assert walked.aborted_records == 2


def test_an_answer_that_begins_inside_an_aborted_transaction_drops_its_rest() -> None:
    log = [batch_of(some(2, first=50), producer_id=ALICE), marker(52, ALICE, 0)]
    walked = fetched(*log, wanted=50, aborted=[(ALICE, 7)])
    assert (walked.batches, walked.next_offset) == ([], 53)


def test_a_batch_without_transaction_is_kept_even_when_its_producer_has_an_aborted_one() -> None:
    idempotent = patched(batch_of(some(2)), producer_id=ALICE)
    walked = fetched(idempotent, aborted=[(ALICE, 0)])
    assert copied(walked) == some(2)


def test_two_aborted_transactions_of_one_producer_are_both_left_out() -> None:
    log = [
        batch_of(some(1), producer_id=ALICE),
        marker(1, ALICE, 0),
        batch_of(some(1, first=2), producer_id=ALICE),
        marker(3, ALICE, 1),
        batch_of(some(1, first=4), producer_id=ALICE),
        marker(5, ALICE, 0),
    ]
    walked = fetched(*log, aborted=[(ALICE, 4), (ALICE, 0)])
    assert [batch.first for batch in walked.batches] == [2]
    assert walked.aborted_records == 2


def test_an_empty_marker_ends_its_producers_transaction() -> None:
    """The Java consumer would lose the committed batch at offset 3."""
    cleaned = patched(golden("v2-marker-empty")[0], base_offset=2, producer_id=ALICE)
    log = [
        batch_of(some(2), producer_id=ALICE),
        cleaned,
        batch_of(some(2, first=3), producer_id=ALICE),
        marker(5, ALICE, 1),
    ]
    walked = fetched(*log, aborted=[(ALICE, 0)])
    assert [batch.first for batch in walked.batches] == [3]


def test_a_control_batch_of_another_type_ends_no_transaction() -> None:
    other = marker(2, ALICE, 0)
    other[other.index(b"\x00\x00\x00\x00", 61 + 4) + 3] = 5
    log = [
        batch_of(some(2), producer_id=ALICE),
        patched(other),
        batch_of(some(2, first=3), producer_id=ALICE),
    ]
    assert marker_of(memoryview(patched(other)), header_of(other)) is Marker.OTHER
    assert fetched(*log, aborted=[(ALICE, 0)]).batches == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("v2-marker-abort", Marker.ABORT),
        ("v2-marker-commit", Marker.COMMIT),
        ("v2-marker-empty", Marker.NONE),
    ],
)
def test_a_marker_that_kafka_wrote_is_read(name: str, kind: Marker) -> None:
    buffer = golden(name)[0]
    assert marker_of(memoryview(buffer), header_of(buffer)) is kind


def test_a_control_record_without_a_type_is_corrupt() -> None:
    control = patched(batch_of(some(1)), attributes=0x20)
    with pytest.raises(CorruptBatchError, match="without type"):
        marker_of(memoryview(control), header_of(control))


def test_what_a_marker_aborts_is_left_out_though_the_list_lacks_it() -> None:
    for listed, omitted in (([(ALICE, 0), (ALICE, 2)], 0), ([(ALICE, 0)], 1), ([], 2)):
        walked = fetched(*UNTOLD, aborted=listed)
        assert [batch.first for batch in walked.batches] == [4, 7]
        assert (walked.aborted_records, walked.omitted, walked.next_offset) == (4, omitted, 9)


def test_records_of_one_each_are_not_gathered_over_an_abort_that_the_list_lacks() -> None:
    log = [
        batch_of(some(1), producer_id=BOB),
        batch_of(some(1, first=1), producer_id=ALICE),
        batch_of(some(1, first=2), producer_id=BOB),
        marker(3, ALICE, 0),
        marker(4, BOB, 1),
    ]
    walked = fetched(*log)
    assert [batch.first for batch in walked.batches] == [0, 2]
    assert (walked.aborted_records, walked.omitted) == (1, 1)


def test_an_abort_of_nothing_takes_nothing_back() -> None:
    committed = [batch_of(some(2), producer_id=ALICE), marker(2, ALICE, 1)]
    plain = patched(batch_of(some(1, first=3)), producer_id=ALICE)
    walked = fetched(*committed, plain, marker(4, ALICE, 0), marker(5, BOB, 0))
    assert [batch.first for batch in walked.batches] == [0, 3]
    assert (walked.aborted_records, walked.omitted) == (0, 0)


def test_what_passed_without_a_marker_is_told_and_aborted_late_by_the_next_answer() -> None:
    log = [batch_of(some(2), producer_id=ALICE), batch_of(some(2, first=2), producer_id=BOB)]
    first = fetched(*log, batch_of(some(2, first=4), producer_id=ALICE))
    assert (first.undecided, first.late) == ({ALICE: 0, BOB: 2}, ())

    more = [batch_of(some(1, first=6), producer_id=ALICE), marker(7, ALICE, 0), marker(8, BOB, 1)]
    for listed in ([], [(ALICE, 0)], [(ALICE, 6)]):
        then = fetched(*more, wanted=6, aborted=listed, undecided=first.undecided)
        assert (then.late, then.undecided) == ((LateAbort(ALICE, 0, 7),), {})
        assert then.batches == []


def test_a_commit_or_a_marker_of_before_decides_nothing_of_what_passed_since() -> None:
    behind = [marker(3, ALICE, 0), batch_of(some(2, first=4), producer_id=ALICE)]
    after = [marker(6, ALICE, 1), marker(7, ALICE, 0)]
    walked = fetched(*behind, *after, wanted=6, undecided={ALICE: 4, BOB: 2})
    assert (walked.late, walked.undecided) == ((), {BOB: 2})


def test_of_a_batch_that_begins_before_the_wanted_offset_only_what_passed_is_undecided() -> None:
    log = [batch_of(some(3), producer_id=ALICE), batch_of(some(2, first=3), producer_id=BOB)]
    walked = fetched(*log, wanted=1)
    assert [batch.first for batch in walked.batches] == [1, 3]
    assert walked.undecided == {ALICE: 1, BOB: 3}

    aborted = fetched(*log, marker(5, ALICE, 0), wanted=2)
    assert [batch.first for batch in aborted.batches] == [3]
    assert (aborted.aborted_records, aborted.omitted, aborted.undecided) == (3, 1, {BOB: 3})


def test_records_that_were_gathered_are_told_as_undecided_too() -> None:
    singles = [batch_of(some(1, first=n), producer_id=(ALICE, BOB)[n % 2]) for n in range(4)]
    plain = [batch_of(some(1, first=n)) for n in (4, 5)]
    walked = fetched(*singles, *plain)
    assert [batch.count for batch in walked.batches] == [6]
    assert walked.undecided == {ALICE: 0, BOB: 1}


def test_however_many_aborts_the_list_lacks_an_answer_is_walked_twice_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walks: list[int] = []
    real = batch.walk

    def counted(view: memoryview, start: int, end: int) -> Iterator[BatchHeader]:
        walks.append(start)
        return real(view, start, end)

    monkeypatch.setattr(engine, "walk", counted)
    log = []
    for offset in range(0, 90, 3):
        log += [batch_of(some(2, first=offset), producer_id=ALICE), marker(offset + 2, ALICE, 0)]
    assert fetched(*log).omitted == 30
    assert sum(after <= before for before, after in pairwise(walks)) == 1
    walks.clear()
    assert fetched(*(marker(offset, BOB, 0) for offset in range(30))).omitted == 0
    assert walks == sorted(set(walks))
