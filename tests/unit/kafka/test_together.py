"""Several requests side by side fail as one would, and end when they are asked to."""

from __future__ import annotations

import asyncio
import gc
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    FencedError,
    UnsupportedError,
)
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import PartitionLeader
from mirrorfleet.kafka.each import LeaderEpochs, Results, on_leaders
from mirrorfleet.kafka.together import all_of, both_of, both_or_neither, helped, those_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mirrorfleet.kafka.cluster import Cluster

TROUBLED, FINE = 1, 2
DEADLINE_S = 5.0
PARTITIONS = [TopicPartition("t", TROUBLED), TopicPartition("t", FINE)]


async def leaders(
    partitions: list[TopicPartition], *, deadline_s: float
) -> dict[TopicPartition, PartitionLeader]:
    """Partition n is led by broker n."""
    del deadline_s
    return {tp: PartitionLeader(tp.partition, 0) for tp in partitions}


def cluster() -> Cluster:
    known = SimpleNamespace(
        name="fake",
        dice=SimpleNamespace(uniform=lambda low, high: high),
        leaders=leaders,
        forget_leaders=lambda topic: None,
    )
    return cast("Cluster", known)


async def ends_of(trouble: Exception) -> Results[TopicPartition, str]:
    async def ask(node: int, epochs: LeaderEpochs, left_s: float) -> Results[TopicPartition, str]:
        del left_s
        if node == TROUBLED:
            raise trouble
        return dict.fromkeys(epochs, "fine")

    return await on_leaders(cluster(), "ends", PARTITIONS, ask, 0.05)


async def test_a_broker_that_does_not_answer_is_no_concern_of_others() -> None:
    found = await ends_of(ConnectionLostError("gone"))

    troubled, fine = (found[each] for each in PARTITIONS)
    assert isinstance(troubled, BrokerError)
    assert (troubled.code, fine) == (ErrorCode.NETWORK_EXCEPTION, "fine")


async def test_what_one_of_several_brokers_refuses_is_an_error_as_of_one() -> None:
    """Not a group of errors: whoever handles the first would die of the second."""
    with pytest.raises(UnsupportedError, match="an old broker"):
        await ends_of(UnsupportedError("an old broker"))


async def test_of_several_errors_fencing_decides_and_then_what_a_retry_cannot_help() -> None:
    async def fail(error: Exception) -> None:
        raise error

    gone, away = ConnectionLostError("gone"), ConnectionLostError("away")
    refused, fenced = AuthenticationError("refused"), FencedError("another owner")
    for errors, decides in (
        ([gone, refused, fenced], fenced),
        ([gone, refused, away], refused),
        ([gone, away], gone),
    ):
        with pytest.raises(type(decides), match=str(decides)):
            await all_of(fail(error) for error in errors)


async def test_who_is_cancelled_while_one_of_several_fails_ends() -> None:
    async def fail() -> None:
        working.cancel()
        raise ConnectionLostError("gone")

    async with asyncio.TaskGroup() as group:
        working = group.create_task(all_of([fail(), asyncio.sleep(DEADLINE_S)]))
        await asyncio.wait([working])

    assert working.cancelled()


async def test_two_give_what_each_gives_and_the_error_of_either() -> None:
    asked = asyncio.Event()

    async def wait() -> int:
        await asked.wait()
        return 1

    async def tell() -> str:
        asked.set()
        return "told"

    async def fail() -> str:
        asked.set()
        raise ConnectionLostError("gone")

    assert await both_of(wait(), tell()) == (1, "told")  # side by side
    with pytest.raises(ConnectionLostError):
        await both_of(wait(), fail())


class Work:
    """Goes on until it is told to end; says how it did."""

    def __init__(self) -> None:
        self.began, self.over = asyncio.Event(), asyncio.Event()
        self.end = ""

    async def run(self) -> None:
        self.began.set()
        try:
            await self.over.wait()
            self.end = "done"
        except asyncio.CancelledError:
            self.end = "cancelled"
            raise


@pytest.mark.parametrize("is_first", [True, False])
async def test_of_two_that_are_of_no_use_alone_the_other_one_ends_when_one_fails(
    *, is_first: bool
) -> None:
    work, gone = Work(), ConnectionLostError("gone")

    async def fail() -> None:
        await work.began.wait()
        raise gone

    async def tell() -> str:
        work.over.set()
        return "told"

    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(ConnectionLostError):
            await both_or_neither(*((work.run(), fail()) if is_first else (fail(), work.run())))
        assert work.end == "cancelled"
        assert await both_or_neither(work.run(), tell()) == (None, "told")
        assert work.end == "done"


async def test_who_is_cancelled_ends_both_and_so_does_who_is_helped() -> None:
    for together in (both_or_neither, helped):
        one, other = Work(), Work()
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
            working = group.create_task(together(one.run(), other.run()))
            await one.began.wait()
            await other.began.wait()
            working.cancel()
            await asyncio.wait([working])

        assert working.cancelled()
        assert (one.end, other.end) == ("cancelled", "cancelled")


async def test_help_ends_with_the_work_and_what_is_wrong_with_it_is_told() -> None:
    aid = Work()

    async def work() -> int:
        await aid.began.wait()
        return 1

    async def broken() -> None:
        aid.began.set()
        raise ValueError("a defect")

    async with asyncio.timeout(DEADLINE_S):
        assert await helped(work(), aid.run()) == 1
        assert aid.end == "cancelled"
        aid = Work()
        with pytest.raises(ValueError, match="a defect"):
            await helped(work(), broken())


async def gives(value: int) -> int:
    return value


async def fails(error: Exception) -> int:
    raise error


async def test_what_some_can_give_is_taken_and_where_none_can_it_is_told_why() -> None:
    away, refused = ConnectionLostError("away"), AuthenticationError("refused")

    assert await those_of([gives(1), fails(away), gives(2), fails(refused)]) == [1, 2]
    assert await those_of([]) == []
    with pytest.raises(AuthenticationError, match="refused"):
        await those_of([fails(away), fails(refused)])
    with pytest.raises(ZeroDivisionError):
        await those_of([gives(1), fails(ZeroDivisionError())])


@pytest.mark.parametrize("side_by_side", [both_of, both_or_neither])
async def test_what_is_cancelled_before_it_began_leaves_no_warning_in_the_log(
    side_by_side: Callable[..., Coroutine[object, object, object]],
) -> None:
    async def work() -> None:
        raise AssertionError

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asking = asyncio.ensure_future(side_by_side(work(), work()))
        for cancel in (lambda: None, asking.cancel):
            cancel()
            await asyncio.sleep(0)
        await asyncio.gather(asking, return_exceptions=True)
        gc.collect()

    assert asking.cancelled()
    assert [str(one.message) for one in told if "never awaited" in str(one.message)] == []
