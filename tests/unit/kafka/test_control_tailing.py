"""A tail never skips a record, and what has no leader holds up nothing else."""

from __future__ import annotations

from uuid import UUID

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.kafka.control_tailing import PartitionTail
from tests.unit.kafka.logs import TOPIC, Logs


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Logs:
    return Logs(monkeypatch, 0, 1)


async def polled(tail: PartitionTail) -> list[bytes | None]:
    return [record.value for record in await tail.poll(deadline_s=0.3)]


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
