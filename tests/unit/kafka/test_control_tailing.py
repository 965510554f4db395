"""A tail never skips a record, and what has no leader holds up nothing else."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.kafka import control_tailing
from mirrorfleet.kafka.control_tailing import PartitionTail
from tests.unit.kafka.logs import TOPIC, Logs


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    return Logs(monkeypatch, 0, 1)


async def polled(tail: PartitionTail) -> list[bytes | None]:
    return [record.value for record in await tail.poll(deadline_s=0.3)]


async def polled_until_some(tail: PartitionTail) -> list[bytes | None]:
    """A broker that was away is so for as long as it took to find that out."""
    async with asyncio.timeout(5):
        while not (found := await polled(tail)):
            pass
    return found


def tail_of(logs: Logs) -> PartitionTail:
    made = PartitionTail(logs.cluster, TOPIC)
    for partition in logs.records:
        made.start(partition, 0)
    return made


async def out_of_range(tail: PartitionTail) -> set[int]:
    with pytest.raises(BrokerError) as error:
        await polled(tail)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    return tail.out_of_range


async def test_a_partition_without_a_leader_holds_up_no_other_and_is_read_when_it_has_one(
    logs: Logs,
) -> None:
    tail = tail_of(logs)
    logs.write(0, b"a")
    logs.write(1, b"b")
    logs.lose_leader(0)

    assert await polled(tail) == [b"b"]
    assert tail.leaderless.keys() == {0}
    logs.leaders[0] = 1
    assert await polled(tail) == []  # asked again from now on
    assert await polled(tail) == [b"a"]
    assert not tail.leaderless


async def test_when_nothing_has_a_leader_it_is_waited_for_until_the_deadline(logs: Logs) -> None:
    tail = tail_of(logs)
    for partition in (0, 1):
        logs.lose_leader(partition)

    with pytest.raises(DeadlineError, match="LEADER_NOT_AVAILABLE"):
        await polled(tail)


def lead_from_two_brokers(logs: Logs) -> None:
    logs.leaders[1] = 2
    logs.forget_leaders(TOPIC)


@pytest.mark.parametrize("was_open", [False, True], ids=["never open", "open before"])
async def test_a_broker_that_cannot_be_reached_holds_up_no_other_and_is_read_when_it_can(
    logs: Logs, *, was_open: bool
) -> None:
    tail = tail_of(logs)
    lead_from_two_brokers(logs)
    if was_open:
        assert await polled(tail) == []
    logs.unreachable = {2}
    logs.write(1, b"b")

    for value in (b"a", b"c"):
        logs.write(0, value)
        assert await polled(tail) == [value]
        assert {at: str(error) for at, error in tail.leaderless.items()} == {
            1: "west: broker 2 is unreachable"
        }
    assert await polled(tail) == []
    logs.unreachable = set()
    assert await polled_until_some(tail) == [b"b"]
    assert not tail.leaderless


async def test_a_broker_that_could_not_be_reached_is_not_tried_at_each_poll_but_its_heir_is(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = tail_of(logs)
    lead_from_two_brokers(logs)
    logs.unreachable = {2}
    logs.write(1, b"b")
    monkeypatch.setattr(control_tailing, "_LOOK_AGAIN_S", 60.0)

    for _ in range(3):
        assert await polled(tail) == []
        assert tail.leaderless.keys() == {1}
    assert logs.tried == [1, 2]
    logs.leaders[1] = 1
    logs.forget_leaders(TOPIC)
    assert await polled(tail) == [b"b"]
    assert not tail.leaderless


async def test_a_leader_that_its_cluster_lost_is_not_followed_for_ever(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_tailing, "_DOUBT_S", 60.0)
    tail = tail_of(logs)
    logs.write(0, b"a")
    assert await polled(tail) == [b"a"]
    logs.cut_off = {1: 1}
    logs.leaders[0] = 2
    logs.write(0, b"b", b"c", epoch=2)

    assert await polled(tail) == []  # the old one says that there is nothing
    monkeypatch.setattr(control_tailing, "_DOUBT_S", 0.0)
    assert await polled(tail) == [b"b", b"c"]
    logs.cut_off = {}  # it is back, and says that it leads this one no more if it is asked
    logs.write(1, b"d")
    asked = logs.polls
    assert await polled(tail) == [b"d"]
    assert logs.polls == asked + 2


async def test_when_no_broker_can_be_reached_they_are_waited_for_until_the_deadline(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = tail_of(logs)
    lead_from_two_brokers(logs)
    logs.unreachable = {1, 2}
    monkeypatch.setattr(control_tailing, "_LOOK_AGAIN_S", 60.0)

    with pytest.raises(DeadlineError, match="is unreachable"):
        await polled(tail)
    logs.unreachable = set()
    logs.write(1, b"b")
    assert await polled(tail) == [b"b"]


async def test_what_one_broker_gave_is_given_out_while_another_refuses_and_that_is_told(
    logs: Logs,
) -> None:
    tail = tail_of(logs)
    lead_from_two_brokers(logs)
    logs.refusing = {1}
    logs.write(0, b"a")

    assert await polled(tail) == [b"a"]
    assert tail.leaderless.keys() == {1}
    with pytest.raises(DeadlineError, match="NOT_LEADER_OR_FOLLOWER"):
        await polled(tail)


@pytest.mark.parametrize("written_since", [0, 1, 5], ids=["shorter", "as long", "longer"])
async def test_a_log_that_lost_its_tail_is_out_of_range_however_long_it_is_now(
    logs: Logs, written_since: int
) -> None:
    tail = tail_of(logs)
    logs.write(0, b"a", b"b")
    await polled(tail)
    del logs.records[0][1:]
    logs.write(0, *[b"c"] * written_since, epoch=2)

    assert await out_of_range(tail) == {0}
    tail.start(0, 0)
    assert await polled(tail) == [b"a", *[b"c"] * written_since]
    assert not tail.out_of_range


async def test_a_topic_that_was_made_again_is_out_of_range_once(logs: Logs) -> None:
    tail = tail_of(logs)
    logs.write(0, b"a")
    await polled(tail)
    logs.topic_id = UUID(int=8)
    logs.records[0] = [(1, b"x"), (1, b"y")]

    assert await out_of_range(tail) == {0, 1}
    for partition in (0, 1):
        tail.start(partition, 0)
    assert await polled(tail) == [b"x", b"y"]
