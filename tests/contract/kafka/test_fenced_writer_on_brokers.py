"""Writing to a control topic by the one process that has the place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from mirrorfleet.core.errors import FencedError, NotOursError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.fenced_writer import FencedWriter
from services.local.region import Region
from tests.contract.kafka.making import new_topic
from tests.faultkit.control_topics import read_to_end

TIME_MS = 1_700_000_000_000


class Place:
    """Whether a process still has it."""

    def __init__(self) -> None:
        self.is_ours = True

    async def __call__(self) -> bool:
        return self.is_ours


@pytest.fixture(params=["v2", "v1"])
async def cluster(request: pytest.FixtureRequest, east: Region) -> AsyncIterator[Cluster]:
    region = east if request.param == "v2" else request.getfixturevalue("old")
    async with Cluster(region.settings()) as opened:
        yield opened


async def values(cluster: Cluster, topic: str) -> list[tuple[int, bytes | None]]:
    found = await read_to_end(cluster.settings, topic)
    return [(record.offset, record.value) for record in found]


async def test_a_writer_that_was_replaced_writes_nothing_and_does_not_take_the_id_back(
    cluster: Cluster,
) -> None:
    at = TopicPartition((await new_topic(cluster)).name, 0)
    name = f"mirrorfleet.{uuid4().hex[:8]}.sync"
    place = Place()
    sleeper = FencedWriter(cluster, name, may_take=place)
    heir = FencedWriter(cluster, name, may_take=Place())
    await sleeper.write(at, [(b"a", b"1"), (b"b", b"2")], TIME_MS)
    await sleeper.write(at, [(b"a", b"3")], TIME_MS)
    await heir.take()

    with pytest.raises(FencedError, match=r"another (process took over|owner has it)"):
        await sleeper.write(at, [(b"a", b"4")], TIME_MS)
    place.is_ours = False
    with pytest.raises(NotOursError, match="another process is active"):
        await sleeper.write(at, [(b"a", b"5")], TIME_MS)
    await heir.write(at, [(b"a", b"6")], TIME_MS)

    found = await values(cluster, at.topic)
    assert [value for _, value in found] == [b"1", b"2", b"3", b"6"]
    # a commit takes one offset behind its records
    assert [offset for offset, _ in found[:3]] == [0, 1, 3]
    for each in (sleeper, heir):
        each.close()


async def test_a_writer_that_slept_while_it_took_the_id_writes_nothing_and_its_heir_goes_on(
    cluster: Cluster,
) -> None:
    """Its place was its own when it was asked, and another's when the id was taken."""
    at = TopicPartition((await new_topic(cluster)).name, 0)
    name = f"mirrorfleet.{uuid4().hex[:8]}.sync"
    heir = FencedWriter(cluster, name, may_take=Place())
    answers = [True, False]

    async def asleep() -> bool:
        is_ours = answers.pop(0)
        if is_ours:
            await heir.write(at, [(b"a", b"1")], TIME_MS)
        return is_ours

    sleeper = FencedWriter(cluster, name, may_take=asleep)
    with pytest.raises(NotOursError, match="another process is active"):
        await sleeper.write(at, [(b"a", b"stale")], TIME_MS)
    with pytest.raises(FencedError):
        await heir.write(at, [(b"a", b"2")], TIME_MS)
    await heir.write(at, [(b"a", b"3")], TIME_MS)

    assert [value for _, value in await values(cluster, at.topic)] == [b"1", b"3"]
    for each in (sleeper, heir):
        each.close()
