"""What is done about a partition that stands still, seen through what is written and asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason, Span
from mirrorfleet.copying.partition import CopyPartition
from mirrorfleet.core.ids import (
    SourceOffset,
    TopicPartition,
)
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.records.commands import Action
from mirrorfleet.slots import mending, target_loss
from mirrorfleet.slots.mending import PATIENT_S
from mirrorfleet.slots.outgoing import ControlEntry
from mirrorfleet.wire.reshape import copied_records
from tests.unit.copying.making import entry, fetched, give, identity, slot, span
from tests.unit.slots.mended import World

R = FaultReason
POSITIONS, EVENTS = "__mirrorfleet.west.positions", "__mirrorfleet.west.events"


@pytest.fixture(autouse=True)
def ends(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the source's log ends: its last item."""
    known = [1_000]

    async def listed(_: object, wanted: dict[TopicPartition, object], **__: object) -> object:
        return {at: ListedOffset(known[-1], -1, 0) for at in wanted}

    monkeypatch.setattr(mending, "list_offsets", listed)
    return known


def records(batch: ControlEntry) -> int:
    return len(list(copied_records(batch.batch)))


async def test_a_position_moves_in_the_transaction_that_tells_the_ledger() -> None:
    world = World()
    world.stand(R.SOURCE_CORRUPT)
    world.ask(Action.SEEK, 0, 9)

    await world.work()
    await world.work()

    (entries,) = world.written
    assert [(str(each.at), records(each)) for each in entries] == [
        (f"{POSITIONS}-0", 2),  # a snapshot's head, and the position
        (f"{EVENTS}-0", 1),
    ]
    assert world.partition.committed.next_source == 9
    assert world.partition.fault is None
    assert [each.kind for each in world.told] == ["gap"]


@pytest.mark.parametrize("why", ["no leader", "in doubt", "few replicas"])
async def test_a_position_waits_for_a_ledger_that_cannot_be_told(why: str) -> None:
    """A transaction would be aborted each time, and all that the slot has fetched taken back. With
    too few replicas it could not even be aborted: its marker is not taken either.
    """
    world, told = World(), TopicPartition(EVENTS, 0)
    world.stand(R.SOURCE_CORRUPT)
    world.ask(Action.SEEK, 0, 9)
    doubted: set[TopicPartition] = world.runner.doubts.doubted
    {"no leader": world.leaderless, "in doubt": doubted, "few replicas": world.few}[why].add(told)

    await world.work()
    assert world.written == []
    assert world.partition.fault is not None

    for some in (doubted, world.leaderless, world.few):
        some.clear()
    await world.work()
    assert world.partition.committed.next_source == 9


async def test_what_was_fetched_before_the_loss_is_sent_first() -> None:
    world = World()
    give(world.slot, world.partition, fetched((0, [b"a"])), end=1)
    world.stand(R.SOURCE_CORRUPT, at=1)
    world.ask(Action.SEEK, 1, 9)

    await world.work()

    assert world.written == []
    assert world.partition.fault is not None


@pytest.mark.parametrize(
    ("reason", "lost"), [(R.RETENTION_OVERTOOK, span(5, 9)), (R.SOURCE_CORRUPT, None)]
)
async def test_a_range_that_an_abort_made_longer_is_looked_at_again(
    reason: FaultReason, lost: Span | None
) -> None:
    world = World("record-gap")
    world.stand(reason, lost, at=5)  # and it stands at 0
    world.ask(Action.ACCEPT_GAP, 5, 6)

    await world.work()

    assert (world.written, world.partition.fault) == ([], None)


async def test_good_records_that_an_abort_took_back_are_copied_before_a_corrupt_one_is_passed() -> (
    None
):
    world = World()
    frame = fetched((0, [b"a", b"b", b"c"]), (3, [b"d"]))
    frame[-1] ^= 1
    give(world.slot, world.partition, frame, end=4)
    world.partition.reported = world.partition.fault
    world.slot.rewind()  # the transaction with what came before it was aborted
    world.ask(Action.ACCEPT_GAP, 3, 4)

    await world.work()
    assert (world.written, world.partition.fault) == ([], None)
    await world.work()
    assert not world.worker.events  # the request waits

    give(world.slot, world.partition, frame, end=4)
    assert world.slot.next_batch(world.partition).batch.count == 3
    copied = replace(world.partition.committed, next_source=SourceOffset(3))
    world.slot.committed([copied], world.now)
    await world.work()

    assert [records(each) for each in world.written[0]] == [2, 1]  # position and ledger
    assert world.partition.committed.next_source == 4


async def test_a_record_is_left_out_and_told_with_the_commit_that_passes_it() -> None:
    world = World("record-gap")
    await world.stand_for_long(R.RECORD_TOO_LARGE, at=1)

    await world.work()
    give(world.slot, world.partition, fetched((0, [b"a", b"b", b"c"])), end=3)

    assert world.partition.fault is None
    assert world.partition.queue[0].batch.holes == ((1, 1),)
    assert world.commit(1) == [f"{POSITIONS}-0"]
    assert world.commit(3) == [f"{POSITIONS}-0", f"{EVENTS}-0"]


async def test_a_record_that_the_source_takes_since_a_moment_ago_is_not_lost_by_its_rule() -> None:
    """`sync` raises the copy's limits after the source's."""
    world = World("record-gap")
    world.stand(R.RECORD_TOO_LARGE, at=1)
    await world.work()
    assert world.partition.left_out == []

    world.slot.renew(replace(world.partition.entry, target_max_batch_bytes=5_000_000))
    assert world.partition.fault is None
    give(world.slot, world.partition, fetched((0, [b"a", b"b", b"c"])), end=3)
    assert world.partition.queue[0].batch.holes == ()


async def test_a_flood_of_records_that_are_not_taken_waits_once_for_each_limit() -> None:
    world = World("record-gap")
    await world.stand_for_long(R.RECORD_TOO_LARGE, at=0)
    await world.work()
    world.stand(R.RECORD_TOO_LARGE, at=1)
    await world.work()
    assert len(world.partition.left_out) == 2

    world.slot.renew(replace(world.partition.entry, target_max_batch_bytes=5_000_000))
    world.stand(R.RECORD_TOO_LARGE, at=2)
    await world.work()
    assert len(world.partition.left_out) == 2
    world.now += PATIENT_S
    await world.work()
    assert len(world.partition.left_out) == 3


async def test_an_operator_need_not_wait_until_a_rule_leaves_a_record_out() -> None:
    world = World("record-gap")
    world.stand(R.RECORD_TOO_LARGE)
    world.ask(Action.SKIP, 0, 1)

    await world.work()
    assert [each.request for each in world.partition.left_out] == ["r1"]


async def test_what_is_left_out_is_told_also_when_its_partition_was_left_behind_meanwhile() -> None:
    world = World("record-gap")
    await world.stand_for_long(R.RECORD_TOO_LARGE, at=1)
    await world.work()

    world.slot.forget_all()  # another producer id, without this partition
    await world.work()
    world.slot.admit(world.partition.entry, world.partition.committed)
    world.partition = world.slot.partitions[identity()]

    assert world.partition.terms.left_out == (span(1, 2),)
    assert world.commit(3) == [f"{POSITIONS}-0", f"{EVENTS}-0"]


async def test_another_incarnation_is_asked_for_now_and_then_until_it_comes() -> None:
    world = World("record-gap")
    world.stand(R.SOURCE_TRUNCATED, span(0, 0))

    await world.work()
    await world.work()
    asked = [(each.action, each.start, each.cause) for each in world.worker.asked]
    world.now += 40
    await world.work()

    assert asked == [("begin-anew", "offset:0", "source-truncated")]
    assert len(world.worker.asked) == 2


async def test_what_was_asked_for_another_incarnation_stands_as_long_as_that_may_begin() -> None:
    """Whatever is copied meanwhile would be copied twice."""
    world = World("record-gap")
    world.stand(R.SOURCE_TRUNCATED, span(0, 0))
    assert not world.mender.awaits_sync(identity())

    await world.work()
    (request,) = world.worker.asked
    world.now += (request.expires_ms - request.time_ms) / 1000 - 1
    assert world.mender.awaits_sync(identity())
    world.now += 1
    assert not world.mender.awaits_sync(identity())


async def test_no_other_incarnation_is_asked_for_of_a_topic_that_is_another_one_by_now() -> None:
    """`sync` would not give it: the offset that is asked for is of the topics of before."""
    world = World("record-gap")
    world.stand(R.SOURCE_TRUNCATED, span(0, 0))
    world.names["east.orders"] = UUID(int=99)

    await world.work()

    assert not world.worker.asked
    assert world.partition.fault is not None
    assert world.partition.fault.reason is R.TARGET_RECREATED


async def test_who_took_the_slot_just_now_meets_what_stands_before_it_answers_a_request() -> None:
    """The owner before told what it stands at, and the operator asked; then that owner died."""
    world = World()
    world.ask(Action.SEEK, 0, 9)
    await world.work()
    assert list(world.worker.events) == []

    world.stand(R.SOURCE_CORRUPT)
    await world.work()

    assert list(world.worker.events) == []
    assert world.partition.committed.next_source == 9


async def test_a_request_that_has_ended_is_not_met() -> None:
    world = World()
    world.stand(R.SOURCE_CORRUPT)
    world.ask(Action.SEEK, 0, 9)
    world.worker.clock.now_ms = lambda: 8

    await world.work()

    assert (world.written, list(world.worker.events)) == ([], [])


class Looks:
    """Looks into losses of the target, each as long as a test wants."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended = asyncio.Event()

    async def examine(self, _: object, partition: CopyPartition, __: Fault) -> None:
        self.begun.append(partition.identity.partition)
        await self.ended.wait()


async def test_losses_of_the_target_are_looked_into_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, looks = World(), Looks()
    monkeypatch.setattr(target_loss, "examine", looks.examine)
    world.slot = world.runner.slot = slot(entry(0), entry(1))
    for partition in world.slot.partitions.values():
        world.slot.fault(partition, Fault(R.TARGET_TRUNCATED, SourceOffset(0), "why"), world.now)
    async with asyncio.TaskGroup() as world.runner.tasks:
        for _ in range(200):  # of a second each, in which the first look does not end
            await world.work()
            await asyncio.sleep(0)
        long = list(looks.begun)
        looks.ended.set()
    world.runner.tasks = None
    assert (long, looks.begun) == ([0], [0, 1])


async def test_a_look_that_ends_with_its_hold_is_begun_again_at_once_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, looks = World(), Looks()
    monkeypatch.setattr(target_loss, "examine", looks.examine)
    world.stand(R.TARGET_TRUNCATED)
    for is_ours in (True, True, False):
        if not is_ours:
            world.slot.partitions.clear()  # another owner has it meanwhile
        async with asyncio.TaskGroup() as world.runner.tasks:
            world.mender._look_into(world.partition)
            await asyncio.sleep(0)
            assert world.mender._looking is not None
            world.mender._looking.cancel()

    assert len(looks.begun) == 2


async def test_a_loss_that_is_not_known_yet_is_looked_into_again_and_one_that_never_will_be_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, looks = World(), Looks()
    looks.ended.set()
    monkeypatch.setattr(target_loss, "examine", looks.examine)
    world.stand(R.TARGET_TRUNCATED)

    async def looks_in(seconds: int) -> int:
        before = len(looks.begun)
        async with asyncio.TaskGroup() as world.runner.tasks:
            for _ in range(seconds):
                await world.work()
                await asyncio.sleep(0)
        return len(looks.begun) - before

    unknown = await looks_in(91)
    assert world.partition.fault is not None
    world.partition.fault = replace(world.partition.fault, comparable=False)
    assert (unknown, await looks_in(91)) == (3, 0)


@pytest.mark.parametrize(("end", "moves"), [(9, True), (8, False)])
async def test_a_seek_is_held_against_the_end_of_the_source(
    ends: list[int], *, end: int, moves: bool
) -> None:
    ends.append(end)
    world = World()
    world.stand(R.SOURCE_CORRUPT)
    world.ask(Action.SEEK, 0, 9)

    await world.work()

    assert (world.partition.committed.next_source == 9) is moves
    assert [event.kind for event in world.worker.events] == ([] if moves else ["request-refused"])


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (
            Fault(R.QUARANTINED, SourceOffset(4), "east.orders-0 takes no marker"),
            "quarantined at source offset 4: east.orders-0 takes no marker",
        ),
        (
            Fault(R.POSITION_LOST, SourceOffset(-1), "its position is gone"),
            "position-lost before the first record: its position is gone",
        ),
        (None, "its first offset is still being asked for"),
    ],
)
async def test_a_request_about_what_is_not_begun_is_refused_at_once_with_what_holds_it(
    *, fault: Fault | None, why: str
) -> None:
    world = World()
    world.runner.unstarted[identity()] = world.slot.partitions.pop(identity())
    world.partition.fault = fault
    world.ask(Action.SKIP, 4, 5)

    await world.work()
    await world.work()

    (event,) = world.worker.events
    assert (event.kind, event.request) == ("request-refused", "r1")
    assert event.detail == f"no request moves it: {why}"
