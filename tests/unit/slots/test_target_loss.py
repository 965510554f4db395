"""Looking whether copies are as long as they were, and what is left of them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import UUID

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.partition import start_position
from mirrorfleet.core.errors import DeadlineError, MirrorfleetError
from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.offsets.agreement import Payload
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.incarnations import LossCause
from mirrorfleet.slots import ledger, starting, succession, taking, target_loss
from mirrorfleet.slots.target_loss import ENDS_S, FIRST_WINDOW, MOST_WINDOW, check_ends
from tests.unit.copying.making import entry, identity, slot, span
from tests.unit.offsets.making import run_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.copying.slot import Slot
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.segments import Run
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

LEADERLESS, SHORT, WHOLE = (TopicPartition("east.orders", number) for number in range(3))
T = TypeVar("T")


def answer(value: T) -> Callable[..., Awaitable[T]]:
    async def answered(*_: object, **__: object) -> T:
        return value

    return answered


def ends_at(end: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the target's logs end."""

    async def ends(_: object, wanted: list[TopicPartition], **__: object) -> object:
        return {at: ListedOffset(end, -1, 0) for at in wanted}

    for module in (target_loss, starting):
        monkeypatch.setattr(module, "list_offsets", ends)


def anew(made: Slot, monkeypatch: pytest.MonkeyPatch, *, end: int) -> SimpleNamespace:
    """A runner whose partition gets another incarnation; what it stops with is in `stopped`."""
    stopped: list[Fault] = []
    side = SimpleNamespace(
        lacks=lambda *_: False,
        renew=answer(None),
        topic_id=lambda _: None,
        of=lambda *_: "one",
        has_few=lambda *_: False,
    )
    monkeypatch.setattr(succession, "told", answer([]))
    monkeypatch.setattr(ledger, "control_entries", lambda *_: [])
    ends_at(end, monkeypatch)
    return SimpleNamespace(
        slot=made,
        stopped=stopped,
        unstarted={},
        clock=SimpleNamespace(monotonic=lambda: 1.0, now_ms=lambda: 1),
        source=None,
        target=None,
        sources=side,
        targets=side,
        stop_partition=lambda partition, fault: stopped.append(fault),
        fleet="west",
        doubts=SimpleNamespace(doubted=frozenset(), doubt=lambda _: None),
    )


async def begun(runner: SimpleNamespace, later: CatalogPartition) -> list[CopyPartition]:
    """What is copied once the incarnation before was left."""
    runner.slot.dismiss(identity())
    sender = SimpleNamespace(commit_control=answer(None))
    begins = await starting.resolve_starts(cast("SlotRunner", runner), [later])
    await taking.admit(cast("SlotRunner", runner), cast("Sender", sender), [later], begins)
    return list(runner.slot.partitions.values())


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
    mender = SimpleNamespace(runs_behind=behind)
    runner = SimpleNamespace(target=None, slot=slot(entry()), mender=mender)

    kept = await target_loss._kept(cast("SlotRunner", runner), partition)

    assert kept == agreed.target_end
    assert asked == [10_000 - FIRST_WINDOW, 0]


async def test_no_more_of_a_long_log_is_compared_than_memory_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the target stores other bytes than were written nothing of it would ever agree."""
    asked: list[tuple[int, int]] = []
    partition = next(iter(slot(entry()).partitions.values()))

    async def bounds(*_: object) -> tuple[int, int]:
        return 0, 10_000_000

    async def stored(_: object, __: object, first: int, end: int) -> dict[TargetOffset, Payload]:
        asked.append((first, end))
        return {}

    async def behind(*_: object) -> list[Run]:
        return [run_of(0, 10_000_000, 0)]

    monkeypatch.setattr(target_loss, "log_bounds", bounds)
    monkeypatch.setattr(target_loss, "_stored", stored)
    mender = SimpleNamespace(runs_behind=behind)
    runner = SimpleNamespace(target=None, slot=slot(entry()), mender=mender)

    with pytest.raises(MirrorfleetError, match="cannot be told"):
        await target_loss._kept(cast("SlotRunner", runner), partition)

    assert max(end - first for first, end in asked) == MOST_WINDOW


async def test_a_loss_of_what_an_incarnation_before_copied_is_found_before_anything_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of one from another source topic, and of a target that is short since then only."""
    made = slot(entry())
    runner = anew(made, monkeypatch, end=1_000)
    partition = made.partitions[identity()]
    partition.commit(replace(partition.committed, next_target=TargetOffset(1_000)))
    later = replace(identity(), incarnation=1, source_topic_id=UUID(int=0xC))
    loss = CatalogLoss(cause=LossCause.SOURCE_RECREATED)
    (partition,) = await begun(runner, entry(identity=later, loss=loss, start="offset:0"))
    await check_ends(cast("SlotRunner", runner), [partition])
    assert runner.stopped == []

    ends_at(950, monkeypatch)
    await check_ends(cast("SlotRunner", runner), [partition])
    assert [fault.reason for fault in runner.stopped] == [FaultReason.TARGET_TRUNCATED]


async def test_a_cut_that_is_known_is_not_found_again_and_one_below_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = slot(entry())
    runner = anew(made, monkeypatch, end=950)
    partition = made.partitions[identity()]
    partition.commit(replace(partition.committed, next_target=TargetOffset(1_000)))
    loss = CatalogLoss(cause=LossCause.TARGET_TRUNCATED, first=940, end=990)
    later = entry(identity=replace(identity(), incarnation=1), loss=loss, start="offset:940")
    (partition,) = await begun(runner, later)
    assert partition.committed.next_target == 950
    await check_ends(cast("SlotRunner", runner), [partition])
    assert runner.stopped == []

    ends_at(949, monkeypatch)
    await check_ends(cast("SlotRunner", runner), [partition])
    assert len(runner.stopped) == 1


async def test_a_target_that_does_not_tell_its_end_keeps_no_incarnation_from_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = slot(entry())
    runner = anew(made, monkeypatch, end=950)
    partition = made.partitions[identity()]
    partition.commit(replace(partition.committed, next_target=TargetOffset(1_000)))

    async def silent(*_: object, **__: object) -> None:
        raise DeadlineError("gave up")

    monkeypatch.setattr(starting, "list_offsets", silent)
    loss = CatalogLoss(cause=LossCause.TARGET_TRUNCATED, first=940, end=990)
    later = entry(identity=replace(identity(), incarnation=1), loss=loss, start="offset:940")
    (partition,) = await begun(runner, later)
    assert partition.committed.next_target == 0


async def test_what_a_deeper_cut_took_of_an_incarnation_before_is_told_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [run_of(n * 10, n * 10 + 10, n * 10) for n in range(100)]
    later = replace(identity(), incarnation=1)
    histories = {later: [run_of(900, 905, 901)], identity(): before}
    made = slot(entry())
    made.dismiss(identity())
    made.admit(
        entry(identity=later), start_position(later, SourceOffset(905), 1, TargetOffset(906))
    )
    runner = anew(made, monkeypatch, end=850)
    stored = {run.target_start: Payload(*run.payloads[0]) for run in before[:85]}

    async def maps_of(wanted: list[PartitionIdentity]) -> OffsetIndex:
        found = OffsetIndex()
        for one in wanted:
            found.add(one, histories[one])
        return found

    async def behind(one: PartitionIdentity, first: int) -> list[Run]:
        return [run for run in histories[one] if run.target_end > first]

    runner.mender = SimpleNamespace(maps_of=maps_of, runs_behind=behind)
    monkeypatch.setattr(target_loss, "log_bounds", answer((0, 850)))
    monkeypatch.setattr(target_loss, "_stored", answer(stored))
    monkeypatch.setattr(target_loss, "_oldest", answer(SourceOffset(0)))
    partition = made.partitions[later]
    partition.fault = Fault(FaultReason.TARGET_TRUNCATED, SourceOffset(905), "it is short")
    await target_loss.examine(cast("SlotRunner", runner), partition, partition.fault)

    (told,) = runner.stopped
    assert (told.lost, told.records) == (span(850, 905), 55)
    assert told.detail == "it is short: 55 records of source [850, 905) are gone"


async def test_bytes_that_cannot_be_compared_are_told_once_and_stay_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = slot(entry())
    runner = anew(made, monkeypatch, end=100)
    partition = made.partitions[identity()]

    def stop(stopped: CopyPartition, fault: Fault) -> None:
        runner.stopped.append(fault)
        stopped.fault = fault

    async def behind(_: PartitionIdentity, first: int) -> list[Run]:
        return [run for run in (run_of(0, 99, 0),) if run.target_end > first]

    async def maps_of(_: object) -> OffsetIndex:
        return OffsetIndex()

    runner.stop_partition = stop
    runner.mender = SimpleNamespace(maps_of=maps_of, runs_behind=behind)
    monkeypatch.setattr(target_loss, "log_bounds", answer((0, 50)))
    recompressed = {TargetOffset(0): Payload(99, 12345)}
    monkeypatch.setattr(target_loss, "_stored", answer(recompressed))
    partition.committed = replace(partition.committed, next_target=TargetOffset(100))
    partition.fault = Fault(FaultReason.TARGET_TRUNCATED, SourceOffset(100), "it is short")

    await target_loss.examine(cast("SlotRunner", runner), partition, partition.fault)

    (told,) = runner.stopped
    assert (told.lost, told.comparable) == (None, False)
    text = "it is short; its stored bytes are not what was written, so this cannot be told"
    assert told.detail.startswith(text)
