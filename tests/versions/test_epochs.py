"""The end of the epoch range: 32,766 commits of v2, or as many new owners, and then a new id.

Crossed by commit, by a transaction that times out and by another owner, from each of the last
epochs; then by a whole fleet under load. The ids are made to stand there (`doctored.py`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.core.errors import BrokerError, FencedError
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.inspection import (
    TransactionDescription,
    describe_transactions,
)
from services.local.region import Region, RegionSpec
from tests.conftest import running
from tests.contract.kafka.making import new_topic
from tests.contract.kafka.writing import Writer, until_committed, writer_on
from tests.faultkit.waiting import until
from tests.versions.doctored import FAR_IDS, LAST_EPOCH, stand_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


QUICK: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
TIMES_OUT_MS: Final = 1_000
STARTS: Final = range(LAST_EPOCH - 3, LAST_EPOCH + 1)
CAUSES: Final = ("commit", "time-out", "take-over")
NAMES: Final = {f"{cause} from {start}": start for cause in CAUSES for start in STARTS}
ROUNDS: Final = {"commit": 5, "time-out": 3, "take-over": 4}
"""Enough from any start to cross the end: a time-out takes three epochs, a take-over two."""


def at_the_end(spec: RegionSpec) -> Iterator[Region]:
    for (started,) in running(spec):
        asyncio.run(stand_at(started, NAMES))
        yield started


@pytest.fixture(scope="module")
def new() -> Iterator[Region]:
    yield from at_the_end(RegionSpec(name="new", extra=QUICK))


@pytest.fixture(scope="module")
def old() -> Iterator[Region]:
    yield from at_the_end(RegionSpec(name="old", kafka="3.9.1", extra=QUICK))


@pytest.fixture
def region(request: pytest.FixtureRequest, side: str) -> Region:
    found: Region = request.getfixturevalue(side)
    return found


@pytest.fixture
async def cluster(region: Region) -> AsyncIterator[Cluster]:
    async with Cluster(region.settings()) as opened:
        yield opened


async def state_of(cluster: Cluster, name: str) -> TransactionDescription:
    found = (await describe_transactions(cluster, [name]))[name]
    if isinstance(found, BrokerError):
        raise found
    return found


async def one_round(cluster: Cluster, cause: str, writer: Writer, number: int) -> Writer:
    """Commit `kept-N`; with the other causes only after `lost-N` was written and aborted by it."""
    name = writer.transactions.transactional_id
    if cause == "time-out":
        await writer.init(TIMES_OUT_MS)
        await writer.write(b"lost-%d" % number)

        async def ended() -> bool:
            return (await state_of(cluster, name)).state in {"CompleteAbort", "Empty"}

        await until(ended, deadline_s=15, what="the coordinator to end it")
        with pytest.raises(FencedError):
            await writer.end(commit=True)
        await writer.init()
    elif cause == "take-over":
        await writer.write(b"lost-%d" % number)
        heir = await writer_on(cluster, writer.topic, name)
        with pytest.raises(FencedError):
            await writer.end(commit=True)
        writer = heir
    await writer.write(b"kept-%d" % number)
    before = writer.producer
    await writer.end(commit=True)
    if writer.producer != before:
        # the answer was lost: the same request again must say the same
        assert await writer.transactions.end(before, commit=True) == writer.producer
    return writer


CASES: Final = [("new", cause, start) for cause in CAUSES for start in STARTS] + [
    ("old", cause, start) for cause in CAUSES[1:] for start in STARTS
]
"""A commit of v1 keeps its epoch, so it crosses nothing."""


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("side", "cause", "start"), CASES)
async def test_what_is_committed_around_the_last_epoch_is_there_once_and_nothing_else(
    cluster: Cluster, cause: str, start: int
) -> None:
    topic = await new_topic(cluster)
    writer = await writer_on(cluster, topic, f"{cause} from {start}")
    ids = [writer.producer.producer_id]
    kept = []
    for number in range(ROUNDS[cause]):
        writer = await one_round(cluster, cause, writer, number)
        ids.append(writer.producer.producer_id)
        kept.append(b"kept-%d" % number)

    assert len(set(ids)) >= 2 or start == LAST_EPOCH
    assert ids[-1] < FAR_IDS, "the doctored producer id has not ended"
    await until_committed(cluster, topic, kept)
