"""Looking whether copies are as long as they were: one that cannot tell keeps nobody waiting."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.ids import TargetOffset, TopicPartition
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.slots import target_loss
from mirrorfleet.slots.target_loss import ENDS_S, check_ends
from tests.unit.copying.making import entry, slot

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.slots.runner import SlotRunner

LEADERLESS, SHORT, WHOLE = (TopicPartition("east.orders", number) for number in range(3))


async def test_a_copy_without_a_leader_is_not_asked_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[list[TopicPartition], object]] = []
    stopped: list[TopicPartition] = []
    partitions = list(slot(*(entry(number) for number in range(3))).partitions.values())
    for partition in partitions:
        partition.committed = replace(partition.committed, next_target=TargetOffset(50))

    async def ends(
        _: object, wanted: dict[TopicPartition, object], *, deadline_s: float, **__: object
    ) -> dict[TopicPartition, ListedOffset]:
        asked.append((list(wanted), deadline_s))
        return {at: ListedOffset(40 if at == SHORT else 50, -1, 0) for at in wanted}

    async def renew() -> None:
        pass

    monkeypatch.setattr(target_loss, "list_offsets", ends)
    runner = SimpleNamespace(
        target=None,
        targets=SimpleNamespace(lacks=lambda *at: at == LEADERLESS, renew=renew),
        stop_partition=lambda partition, fault: stopped.append(partition.target),
    )
    await check_ends(cast("SlotRunner", runner), partitions)

    assert asked == [([SHORT, WHOLE], ENDS_S), ([SHORT], ENDS_S)]
    assert stopped == [SHORT]
