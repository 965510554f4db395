"""Looking whether copies are as long as they were, and what is left of them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.ids import TargetOffset, TopicPartition
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.offsets.agreement import Payload
from mirrorfleet.slots import target_loss
from mirrorfleet.slots.target_loss import ENDS_S, FIRST_WINDOW, check_ends
from tests.unit.copying.making import entry, slot
from tests.unit.offsets.making import run_of

if TYPE_CHECKING:
    import pytest

    from mirrorfleet.records.segments import Run
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


async def test_only_the_runs_behind_the_window_are_read_until_one_payload_agrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    partition = next(iter(slot(entry()).partitions.values()))
    runs = [run_of(n * 100, n * 100 + 99, n * 100) for n in range(100)]
    agreed = runs[30]

    async def bounds(*_: object) -> tuple[int, int]:
        return 0, 10_000

    async def stored(_: object, __: object, first: int, ___: int) -> dict[TargetOffset, Payload]:
        payload = {agreed.target_start: Payload(*agreed.payloads[0])}
        return payload if agreed.target_start >= first else {}

    async def behind(identity: object, first: int) -> list[Run]:
        assert identity == partition.identity
        asked.append(first)
        return [run for run in runs if run.target_end > first]

    monkeypatch.setattr(target_loss, "log_bounds", bounds)
    monkeypatch.setattr(target_loss, "_stored", stored)
    runner = SimpleNamespace(target=None, mender=SimpleNamespace(runs_behind=behind))

    kept = await target_loss._kept(cast("SlotRunner", runner), partition)

    assert kept == agreed.target_end
    assert asked == [10_000 - FIRST_WINDOW, 0]
