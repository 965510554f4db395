"""Records of a control partition, answer after answer."""

from __future__ import annotations

from uuid import UUID

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.control_reading import Reading
from mirrorfleet.kafka.fetcher import Fetched
from mirrorfleet.wire.k01_fetch import FetchedPartition
from tests.unit.wire.batches import batch_of, marker, some

ALICE = 11
COMMITTED = [batch_of(some(2), producer_id=ALICE), marker(2, ALICE, 1)]
ABORTED = [batch_of(some(2, first=3), producer_id=ALICE), marker(5, ALICE, 0)]
"""Of which the broker's list says nothing (`wire.aborted`)."""


def take(reading: Reading, *batches: bytearray) -> list[int]:
    """The offsets of the records of an answer."""
    buffer = bytearray(b"".join(batches))
    none = ErrorCode.NONE
    part = FetchedPartition("p", UUID(int=3), 0, none, 6, 6, 0, None, None, -1, [], 0, len(buffer))
    return [record.offset for record in reading.take(Fetched(buffer, [part], 0), part)]


@pytest.mark.parametrize("start", [0, 1, 3, 4])
def test_records_that_a_marker_aborts_are_none_wherever_a_read_begins(start: int) -> None:
    reading = Reading(TopicPartition("p", 0), start, 6)
    log = [*COMMITTED, *ABORTED] if start < 3 else ABORTED

    assert take(reading, *log) == [offset for offset in (0, 1) if offset >= start]
    assert reading.at_end


def test_records_are_not_given_before_the_marker_of_their_transaction_has_come() -> None:
    reading = Reading(TopicPartition("p", 0), 0, 6)

    assert take(reading, *COMMITTED, ABORTED[0]) == [0, 1]
    assert reading.next_offset == 3
    assert take(reading, *ABORTED) == []
    assert reading.at_end
