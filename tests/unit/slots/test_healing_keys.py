"""What is looked at first when a target names records that it refuses for several reasons."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.faults import Action
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.kafka.producer import ProduceAck
from mirrorfleet.slots import healing
from mirrorfleet.slots.outgoing import AbortError
from mirrorfleet.wire.copybatch import FaultKind, NullKeys
from tests.unit.copying.making import BIG, entry, fetched, give, partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.slots.runner import SlotRunner

NO_KEY = "Compacted topic cannot accept message without key"
EARLY = "Timestamp is out of range"


def refused(named: tuple[tuple[int, str], ...], *, compacted: bool = True) -> CopyPartition:
    """A partition after its target has refused these records of a batch, all with one code."""
    copying = slot(entry(target_compacted=compacted, null_keys="drop-recorded"))
    partition = partition_of(copying)
    give(copying, partition, fetched((10, [BIG, BIG])), end=12)
    ack = ProduceAck("east.orders", 0, ErrorCode.INVALID_TIMESTAMP, -1, -1, 0, None, named, None)
    error = AbortError(
        "refused", Action.INSPECT, partition=partition, batch=partition.queue[0].batch, ack=ack
    )
    runner = SimpleNamespace(slot=copying, clock=SimpleNamespace(monotonic=lambda: 100.0))
    healing.after_refusal(cast("SlotRunner", runner), error)
    return partition


def test_keys_are_looked_at_first_where_a_record_lacks_one_and_another_has_a_refused_time() -> None:
    partition = refused(((0, NO_KEY), (1, EARLY)))

    assert partition.fault is None
    assert partition.terms.refused is None
    assert partition.terms.null_keys is NullKeys.DROP_RECORDED


@pytest.mark.parametrize(
    ("named", "compacted"), [(((1, EARLY),), True), (((1, EARLY), (0, EARLY)), False)]
)
def test_a_refused_time_alone_stops_at_its_record(
    named: tuple[tuple[int, str], ...], *, compacted: bool
) -> None:
    refusal = refused(named, compacted=compacted).terms.refused

    assert refusal is not None
    assert (refusal.offset, refusal.kind) == (11, FaultKind.TIMESTAMP)
