"""What was told of a slot before is read to its end, whatever becomes of that end meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.ids import SourceOffset, TopicPartition
from mirrorfleet.kafka.offsets import LATEST, ListedOffset, OffsetSpec
from mirrorfleet.slots import succession
from tests.unit.kafka.logs import Logs
from tests.unit.views.making import entry, report, snapshot

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.progress import PartitionProgress
    from mirrorfleet.slots.runner import SlotRunner

AT = TopicPartition("__mirrorfleet.west.progress", 0)


async def test_a_slot_is_not_held_up_by_progress_that_lost_its_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its next owner is who waits here, and nobody else writes to it."""
    logs = Logs(monkeypatch, AT.partition)
    ends = iter([10, 0])

    async def list_offsets(
        _: object, wanted: dict[TopicPartition, OffsetSpec], *, deadline_s: float
    ) -> dict[TopicPartition, ListedOffset]:
        del deadline_s
        return {AT: ListedOffset(next(ends) if wanted[AT] is LATEST else 0, -1, 0)}

    monkeypatch.setattr(succession, "list_offsets", list_offsets)
    runner = SimpleNamespace(target=logs.cluster, control_partition=lambda _: AT)

    async with asyncio.timeout(1.0):
        told = await succession.last_told(cast("SlotRunner", runner))

    assert told == {}


def test_an_owner_that_saw_no_end_does_not_hide_the_end_that_one_before_saw() -> None:
    seen: dict[PartitionIdentity, PartitionProgress] = {}
    for records, end in ((9, 110), (9, 120), (10, -1)):
        told = report(entry(), high_watermark=SourceOffset(end), records=records)
        succession._keep(seen, snapshot(told))

    found = seen[entry().identity]
    assert (found.records, found.high_watermark) == (10, 120)
