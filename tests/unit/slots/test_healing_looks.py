"""What one look at the source's leader says."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.loss import Look
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError
from mirrorfleet.core.ids import SourceOffset, TopicPartition
from mirrorfleet.kafka.offsets import EpochEnd, ListedOffset
from mirrorfleet.slots import healing, target_loss
from mirrorfleet.slots.runner import SlotRunner
from tests.unit.copying.making import entry, identity, partition_of, slot


@pytest.mark.parametrize(
    ("told", "end", "lacks"),
    [
        (EpochEnd(5, 40), 40, False),
        (EpochEnd(4, 120), 120, True),
        (EpochEnd(-1, -1), -1, True),
        (BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH, "later"), -1, False),
    ],
    ids=["ends before", "is not there", "of an earlier life", "refused"],
)
async def test_a_look_tells_whether_the_log_has_the_epoch_that_was_read_last(
    monkeypatch: pytest.MonkeyPatch, *, told: EpochEnd | BrokerError, end: int, lacks: bool
) -> None:
    async def listed(
        _: object, specs: dict[TopicPartition, object], **__: object
    ) -> dict[TopicPartition, ListedOffset]:
        return {at: ListedOffset(offset=130, timestamp=0, leader_epoch=6) for at in specs}

    async def lineage(
        _: object, epochs: dict[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd | BrokerError]:
        assert set(epochs.values()) == {5}
        return dict.fromkeys(epochs, told)

    monkeypatch.setattr(healing, "list_offsets", listed)
    monkeypatch.setattr(healing, "offset_for_leader_epoch", lineage)
    partition = partition_of(slot())
    partition.walked_epoch = 5

    found = await healing._look(cast("SlotRunner", SimpleNamespace(source=None)), partition)

    assert found == Look(130, 130, end, lacks)


@pytest.mark.parametrize(
    ("compacted", "end", "epoch", "faults"),
    [(True, 120, -1, 0), (False, 120, 5, 1), (True, -1, 5, 1), (False, -1, 5, 1)],
)
async def test_a_replica_that_was_filled_after_compaction_lacks_an_epoch_and_is_no_other_log(
    monkeypatch: pytest.MonkeyPatch, *, compacted: bool, end: int, epoch: int, faults: int
) -> None:
    """But one whose epochs are all below ours was put back from a disk, compacted or not."""

    async def look(*_: object) -> Look:
        return Look(0, 130, end, lacks_epoch=True)

    async def nothing() -> None:
        pass

    async def listed(_: object, __: object, fault: Fault) -> Fault:
        return fault

    monkeypatch.setattr(healing, "_look", look)
    monkeypatch.setattr(target_loss, "listed", listed)
    partition = partition_of(slot(entry(source_compacted=compacted)))
    partition.walked_epoch = 5
    told: list[Fault] = []
    runner = SimpleNamespace(
        sources=SimpleNamespace(renewed=nothing),
        stop_partition=lambda _, fault: told.append(fault),
        clock=SimpleNamespace(monotonic=lambda: 1.0),
    )

    await healing.examine(cast("SlotRunner", runner), partition)

    assert (partition.walked_epoch, len(told)) == (epoch, faults)


@pytest.mark.parametrize("awaits", [True, False])
def test_what_sync_may_begin_anew_is_not_tried_again_meanwhile(*, awaits: bool) -> None:
    copying = slot()
    partition = partition_of(copying)
    partition.fault = Fault(FaultReason.TARGET_DENIED, SourceOffset(0), "may not WRITE")
    same = {"orders": identity().source_topic_id, "east.orders": identity().target_topic_id}
    side = SimpleNamespace(denied=lambda _: False, topic_id=same.get)
    runner = SimpleNamespace(unstarted={}, slot=copying, sources=side, targets=side)
    vars(runner).update(retry=copying.heal, mender=SimpleNamespace(awaits_sync=lambda _: awaits))

    healing.look_again(cast("SlotRunner", runner), 1_000.0)

    assert (partition.fault is not None) is awaits


async def test_a_refusal_that_is_heard_while_the_slot_ends_ends_nothing_else() -> None:
    """Of several connections to one partition each ends after the lane that they belong to."""
    partition = partition_of(slot())
    runner = SimpleNamespace()

    async def fetching() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            SlotRunner.examine(cast("SlotRunner", runner), partition)

    async def ending() -> None:
        async with asyncio.TaskGroup() as group:
            runner.tasks = group
            group.create_task(fetching())
            await asyncio.sleep(0)
            raise ConnectionLostError("the slot ends")

    with pytest.raises(ExceptionGroup) as caught:
        await ending()

    assert [type(each) for each in caught.value.exceptions] == [ConnectionLostError]
