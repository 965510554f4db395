from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.core.ids import ProducerIdentity, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.inspection import TransactionDescription
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.slots.outgoing import AbortError
from mirrorfleet.slots.quarantine import WedgedError
from mirrorfleet.slots.settling import UnsettledError
from tests.unit.copying.making import identity
from tests.unit.slots.settled import (
    CONTROL,
    COPY,
    OTHER,
    POSITIONS,
    SEGMENTS,
    SPARE,
    STRANGER,
    World,
)
from tests.unit.slots.stubs import PRODUCER


def _begin_anew(world: World, copied: int, begun: int) -> None:
    """The first copy was copied up to one target offset, its next incarnation up to the other."""
    slot, before = world.runner.slot, identity(0)
    left, entry = slot.partitions[before].committed, world.runner.entries.pop(before)
    slot.dismiss(before)
    slot.known[before] = replace(left, next_target=TargetOffset(copied))
    now = replace(before, incarnation=1)
    world.runner.entries[now] = entry = replace(entry, identity=now)
    slot.admit(entry, replace(left, identity=now, next_target=TargetOffset(begun)))


async def test_without_an_open_transaction_of_ours_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.open[COPY] = [(PRODUCER, None), (STRANGER, 100)]
    world.doubts.renew()

    assert await world.settled() == []
    assert sorted(world.looks) == [[COPY], [OTHER], [*CONTROL]]
    assert await world.settled() == []
    assert len(world.looks) == 3


async def test_what_begins_behind_the_copied_records_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.open[COPY] = [(PRODUCER, 100)]
    world.runner.slot.take_sequence(COPY, 5)
    world.doubts.renew()

    assert await world.settled() == ["state", f"add {COPY}", "abort", "coordinator closed"]
    assert world.sender.producer == ProducerIdentity(PRODUCER.producer_id, PRODUCER.epoch + 1)
    assert world.runner.slot.sequences == {}


async def test_what_the_positions_call_copied_is_committed_before_the_rest_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.open = {COPY: [(PRODUCER, 100)], OTHER: [(PRODUCER, 99)]}
    world.doubts.renew()

    found = [each for each in await world.settled() if each != "coordinator closed"]
    assert found == ["state", f"add {OTHER}", "commit", f"add {COPY}", "abort"]


async def test_what_is_open_where_nothing_is_copied_any_more_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Perhaps it was committed, and positions that nobody has any more say so."""
    world = World(monkeypatch)
    world.open[COPY] = [(PRODUCER, 5)]
    world.doubts.renew()
    world.runner.slot.dismiss(identity(0))
    del world.runner.entries[identity(0)]

    assert await world.settled() == []
    assert world.doubts.doubted == set()


async def test_what_an_earlier_incarnation_has_copied_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first position of an older build says nothing of it."""
    world = World(monkeypatch)
    _begin_anew(world, 500, 0)
    world.open[COPY] = [(PRODUCER, 400)]
    world.doubts.renew()

    assert "commit" in await world.settled()


async def test_what_lies_behind_a_cut_that_an_earlier_incarnation_was_beyond_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    _begin_anew(world, 100, 70)
    world.open[COPY] = [(PRODUCER, 72)]
    world.doubts.renew()

    found = await world.settled()
    assert "abort" in found
    assert "commit" not in found


async def test_with_v1_the_next_epoch_aborts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, TransactionVersion.V1)
    world.open[COPY] = [(PRODUCER, 100)]
    world.doubts.renew()

    with pytest.raises(UnsettledError):
        await world.settled()
    assert world.log.seen == ["state", f"add {COPY}", "coordinator closed"]


async def test_a_partition_without_a_leader_is_asked_about_when_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.open[COPY] = [(PRODUCER, 100)]
    world.leaderless = {COPY, OTHER}
    world.doubts.renew()

    assert await world.settled() == []
    world.leaderless = set()
    assert "abort" in await world.settled()


async def test_a_partition_that_has_a_leader_again_is_asked_about_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.leaderless = {COPY}
    world.doubts.renew()
    await world.settled()
    assert (sorted(world.looks), world.doubts.doubted) == ([[OTHER], [*CONTROL]], {COPY})

    world.leaderless = set()
    await world.settled()
    assert (world.looks[2:], world.doubts.doubted) == ([[COPY]], set())


async def test_a_partition_that_stands_still_is_asked_about_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    fault = Fault(FaultReason.RECORD_TOO_LARGE, SourceOffset(100), "too large")
    world.runner.slot.partitions[identity(0)].fault = fault  # what is before it is still copied
    world.doubts.renew()
    await world.settled()
    assert world.doubts.doubted == set()


async def test_a_leader_out_of_reach_leaves_only_its_own_partitions_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.open[OTHER] = [(PRODUCER, 100)]
    world.unreachable = {COPY}
    world.doubts.renew()

    assert "abort" in await world.settled()
    assert world.doubts.doubted == {COPY}


async def test_a_leader_of_another_epoch_is_asked_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    await world.settled()
    assert (world.looks, world.doubts.doubted) == ([], set())

    world.epoch = 2
    world.renewed()
    assert world.doubts.doubted == {COPY, OTHER, *CONTROL}
    world.renewed()
    await world.settled()
    assert (sorted(world.looks), world.doubts.doubted) == ([[COPY], [OTHER], [*CONTROL]], set())


async def test_a_leader_of_another_epoch_is_asked_at_once_also_just_after_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.doubts.renew()
    await world.settled()
    world.looks.clear()

    world.epoch = 2
    world.renewed()
    await world.settled()
    assert (sorted(world.looks), world.doubts.doubted) == ([[COPY], [OTHER], [*CONTROL]], set())


async def test_a_connection_that_we_did_not_close_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    assert not world.doubts.lost(1)
    world.doubts.connected(1)
    assert (world.doubts.lost(1), world.doubts.lost(2)) == (True, False)
    world.doubts.renew()
    assert world.doubts.lost(1)
    world.doubts.closed()
    assert not world.doubts.lost(1)


@pytest.mark.parametrize(
    ("version", "ends"),
    [
        (TransactionVersion.V2, [f"add {OTHER}", "commit", f"add {COPY}", "abort"]),
        (TransactionVersion.V1, [f"add {OTHER}", "commit", "init", f"add {COPY}", "init"]),
    ],
    ids=["v2", "v1"],
)
async def test_what_the_spare_id_left_open_ends_after_a_proof_that_we_own_the_slot(
    monkeypatch: pytest.MonkeyPatch, version: TransactionVersion, ends: list[str]
) -> None:
    world = World(monkeypatch, version)
    world.open = {COPY: [(SPARE, 100)], OTHER: [(SPARE, 99), (STRANGER, 1)]}
    await world.doubts.learn()
    world.doubts.renew()

    wanted = ["state t.spare", "init", "keep alive", *ends, "coordinator closed"]
    assert await world.settled() == wanted
    assert world.runner.spare.done == ["drop"]  # what was taken beforehand is fenced now


async def test_the_spare_id_is_not_taken_by_two_of_us_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first of them would be fenced, and give up the slot."""
    world = World(monkeypatch)
    world.open = {COPY: [(SPARE, 100)]}
    await world.doubts.learn()
    world.doubts.renew()

    async with world.runner.spare.alone:
        settled = asyncio.ensure_future(world.settled())
        for _ in range(50):
            await asyncio.sleep(0)
        assert "init" not in world.log.seen
    assert "init" in await settled


async def test_what_the_main_id_left_open_is_left_behind_under_the_spare_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.open = {COPY: [(SPARE, 100)], OTHER: [(STRANGER, 1)]}
    world.wedges.left_behind = frozenset({TopicPartition("east.orders", 2)})
    await world.doubts.learn()
    world.doubts.renew()

    with pytest.raises(WedgedError, match=r"^east\.orders-0"):
        await world.settled()
    assert world.log.seen == ["state t.spare"]


async def test_positions_are_settled_before_any_copy_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.open = {COPY: [(PRODUCER, 99)], POSITIONS: [(PRODUCER, 42)]}
    world.unreachable = {POSITIONS}
    world.doubts.renew()
    assert await world.settled() == []
    assert world.doubts.doubted == {COPY, OTHER, *CONTROL}

    world.unreachable = set()
    world.doubts.renew()
    ends = [each for each in await world.settled() if each != "coordinator closed"]
    assert ends == ["state", f"add {POSITIONS}", "abort", "state", f"add {COPY}", "commit"]


async def test_what_the_second_look_does_not_answer_stays_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.open[COPY] = [(PRODUCER, 100)]
    world.lost_at_state = COPY
    world.doubts.renew()
    assert await world.settled() == ["state"]
    assert world.doubts.doubted == {COPY}


async def test_nothing_may_be_begun_while_positions_have_no_leader_or_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    assert await world.doubts.settle(world.sender)
    world.leaderless = {SEGMENTS}
    assert not await world.doubts.settle(world.sender)
    world.leaderless, world.unreachable = set(), {POSITIONS}
    world.doubts.renew()
    assert not await world.doubts.settle(world.sender)
    world.unreachable = set()
    world.doubts.renew()
    assert await world.doubts.settle(world.sender)


async def test_how_a_transaction_ended_is_remembered_until_what_it_left_open_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    committed = TransactionDescription("t", "CompleteCommit", PRODUCER, 1, ())
    world.doubts.fenced("t", SPARE, committed)  # as whom the coordinator knows the id
    assert await world.doubts.last_of("t") is committed
    world.doubts.settled("t")
    found = await world.doubts.last_of("t")
    assert found is not committed
    world.doubts.fenced("t", STRANGER, committed)  # another one took it since
    found = await world.doubts.last_of("t")
    assert found is not None
    assert found.state == "CompleteAbort"


@pytest.mark.parametrize(
    ("start", "end"), [(41, "commit"), (42, "abort")], ids=["of a commit", "of what was aborted"]
)
async def test_open_positions_end_as_the_owner_knows_that_they_ended(
    monkeypatch: pytest.MonkeyPatch, start: int, end: str
) -> None:
    world = World(monkeypatch)
    world.doubts.control_ends[POSITIONS] = 42
    world.open[POSITIONS] = [(PRODUCER, start), (SPARE, 1)]
    await world.doubts.learn()
    world.doubts.renew()

    wanted = ["state t.spare", "state", f"add {POSITIONS}", end, "coordinator closed"]
    assert await world.settled() == wanted


async def test_positions_are_added_to_no_transaction_while_an_earlier_one_is_open_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    await world.doubts.clear(world.sender, CONTROL)
    assert world.looks == []  # no leader has changed

    world.epoch = 2
    world.renewed()
    await world.doubts.clear(world.sender, CONTROL)
    assert world.looks == [[*CONTROL]]
    assert world.doubts.doubted == {COPY, OTHER}

    world.open[POSITIONS] = [(PRODUCER, 7)]
    world.doubts.renew()
    with pytest.raises(AbortError, match="positions-2"):
        await world.doubts.clear(world.sender, CONTROL)


async def test_positions_whose_leader_says_nothing_are_written_in_no_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.unreachable = {POSITIONS}
    world.doubts.renew()
    with pytest.raises(AbortError):
        await world.doubts.clear(world.sender, CONTROL)
