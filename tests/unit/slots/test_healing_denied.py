"""A right that is missing is the topic's: all of it stops at once, and nothing beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.faults import Action, FaultReason
from mirrorfleet.slots import healing
from mirrorfleet.slots.outgoing import AbortError
from tests.unit.copying.making import ALONE, LINK, entry, fetched, give, identity, slot

if TYPE_CHECKING:
    from mirrorfleet.slots.runner import SlotRunner


def test_one_abort_stops_all_partitions_of_a_topic_that_may_not_be_written_to() -> None:
    made = slot(entry(0), entry(1), entry(2, target_topic="east.stock"))
    denied, beside, other = (made.partitions[identity(number)] for number in range(3))
    for partition in (denied, beside, other):
        give(made, partition, fetched((0, [ALONE])), end=1)
    runner = SimpleNamespace(
        slot=made,
        link=LINK,
        target_principal="User:mirror",
        stop_partition=lambda partition, fault: made.fault(partition, fault, 1.0),
    )
    batch = denied.queue[0].batch
    made.hold_back(denied, 0.0)  # the abort takes it back

    error = AbortError("denied", Action.DENIED, partition=denied, batch=batch)
    healing.after_refusal(cast("SlotRunner", runner), error)

    reasons = [each.fault and each.fault.reason for each in (denied, beside, other)]
    assert reasons == [FaultReason.TARGET_DENIED, FaultReason.TARGET_DENIED, None]
    assert made.ready_partitions() == [other]
