"""What came of transactions, for readers: markers are believed more than the broker's list."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.wire.copybatch import AbortedTransaction
from mirrorfleet.wire.decided import Decided, decided
from tests.unit.wire.batches import batch_of, marker, some
from tests.unit.wire.test_aborted import ALICE
from tests.unit.wire.test_aborted import UNTOLD as LOG


def answered(
    *batches: bytes | bytearray, asked: int = 0, listed: Sequence[tuple[int, int]] = ()
) -> list[Decided]:
    buffer = bytearray(b"".join(batches))
    entries = [AbortedTransaction(*entry) for entry in listed]
    return decided(buffer, 0, len(buffer), entries, asked)


def given(found: Sequence[Decided]) -> list[int]:
    """Where the batches begin that a reader is given."""
    return [one.header.base_offset for one in found if not (one.header.is_control or one.aborted)]


@pytest.mark.parametrize("listed", [[(ALICE, 0), (ALICE, 2)], [(ALICE, 0)], [(ALICE, 2)], []])
def test_what_a_marker_aborts_is_aborted_though_the_list_lacks_it(
    listed: list[tuple[int, int]],
) -> None:
    found = answered(*LOG, listed=listed)
    assert (given(found), found[-1].header.next_offset) == ([4, 7], 9)


def test_an_answer_from_the_middle_of_the_log_is_decided_by_its_own_markers() -> None:
    assert given(answered(*LOG[2:], asked=2)) == [4, 7]
    assert given(answered(*LOG[4:], asked=5)) == [7]


def test_what_is_not_decided_in_an_answer_is_left_for_the_next_one() -> None:
    cut = answered(*LOG[:5])
    assert (given(cut), cut[-1].header.next_offset) == ([], 2)
    assert given(answered(*LOG[:5], listed=[(ALICE, 2)])) == []
    assert given(answered(*LOG[2:], asked=2)) == [4, 7]


def test_of_a_transaction_longer_than_an_answer_the_list_is_believed() -> None:
    assert given(answered(*LOG[2:5], asked=2)) == [2, 4, 5]
    assert given(answered(*LOG[2:5], asked=2, listed=[(ALICE, 2)])) == []
    assert given(answered(*LOG[2:5], asked=4, listed=[(ALICE, 2)])) == [4]


def test_a_marker_of_the_transaction_before_decides_nothing_of_the_next() -> None:
    log = [
        batch_of(some(1), producer_id=ALICE),
        marker(1, ALICE, 1),
        batch_of(some(1, first=2), producer_id=ALICE),
        marker(3, ALICE, 0),
    ]
    assert given(answered(*log)) == [0]
    assert given(answered(*log[:3])) == [0]


def test_a_batch_that_is_damaged_is_no_answer() -> None:
    damaged = bytearray(LOG[0])
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        answered(LOG[-2], damaged)
