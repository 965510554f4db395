"""The end of the epoch range: 32,766 commits of v2, or as many new owners, and then a new id.

Crossed by commit, by a transaction that times out and by another owner, from each of the last
epochs; then by a whole fleet under load. The ids are made to stand there (`doctored.py`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.core.errors import BrokerError, FencedError
from mirrorfleet.core.ids import ClusterAlias, FleetName, SlotNumber
from mirrorfleet.core.names import transactional_id
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.inspection import (
    OpenTransaction,
    TransactionDescription,
    describe_transactions,
    list_transactions,
)
from services.local.region import Region, RegionSpec
from tests.conftest import running
from tests.contract.kafka.making import new_topic
from tests.contract.kafka.writing import Writer, until_committed, writer_on
from tests.faultkit.bites import ALREADY_ENDING_S
from tests.faultkit.hold import hold_sync
from tests.faultkit.markers import markers
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import until, wait_until
from tests.judge.verdict import Evidence, Verdict
from tests.versions.doctored import FAR_IDS, LAST_EPOCH, stand_at
from tests.versions.kit import CALM, SLOTS, Fleet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from tests.conftest import Regions
    from tests.faultkit.process import ServiceProcess

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


# -- a fleet


class Edge:
    """The slots of a fleet as their coordinator and their markers have them."""

    def __init__(self, fleet: Fleet, region: Region) -> None:
        self.fleet, self.region = fleet, region
        self.names = slots_of(fleet.name)

    def known(self) -> dict[str, OpenTransaction]:
        """Each slot that the coordinator knows."""

        async def ask() -> list[OpenTransaction]:
            async with Cluster(self.region.settings()) as cluster:
                return await list_transactions(cluster)

        found = {each.transactional_id: each for each in asyncio.run(ask())}
        return {name: found[name] for name in self.names if name in found}

    def open_at_the_end(self) -> list[str]:
        """Slots whose open transaction is in an epoch that has no second one behind it.

        Whoever ends it takes one epoch, and the next owner would need another.
        """
        return [
            name
            for name, each in self.known().items()
            if each.state == "Ongoing"
            and each.producer_id >= FAR_IDS
            and self.epoch_after(name) >= LAST_EPOCH - 1
        ]

    def epoch_after(self, name: str) -> int:
        """The epoch after that of the last marker: each transaction of v2 has one of its own."""
        found = markers(self.fleet.data, self.fleet.control("positions"), self.names.index(name))
        return found[-1].producer_epoch + 1 if found else 0

    def rolled_over(self) -> list[str]:
        """Slots that have a new producer id."""
        return [name for name, each in self.known().items() if each.producer_id < FAR_IDS]


def slots_of(fleet: str) -> list[str]:
    return [
        transactional_id(FleetName(fleet), ClusterAlias("east"), SlotNumber(number))
        for number in range(SLOTS)
    ]


def freeze_at_the_end(mirror: ServiceProcess, edge: Edge) -> Sequence[str]:
    """Freeze the worker when it has a transaction open in one of the last epochs."""

    def frozen() -> list[str]:
        mirror.check_alive()
        mirror.freeze()
        hold_sync(ALREADY_ENDING_S, reason="a commit may be on its way from the frozen worker")
        found = edge.open_at_the_end()
        if not found:
            mirror.thaw()
        return found

    return wait_until(frozen, deadline_s=60, what="a transaction open in a last epoch")


def crossed(edge: Edge, names: Sequence[str], fault: str) -> Evidence:
    """Proof that these slots went over the end because of the fault."""
    wait_until(
        lambda: set(names) <= set(edge.rolled_over()), deadline_s=60, what=f"{names} to roll over"
    )
    return Evidence(fault, bit=bool(names), detail=f"{len(names)} slots crossed")


@pytest.mark.timeout(300)
def test_a_fleet_crosses_the_end_by_commit_time_out_and_take_over_and_loses_nothing(
    east: Region, regions: Regions, tmp_path: Path
) -> None:
    (target,) = regions(RegionSpec(name="edge", extra=QUICK))
    # one slot after the other comes to the end, some seconds apart
    starts = {name: LAST_EPOCH - 8 * n for n, name in enumerate(slots_of("edge"), 1)}
    asyncio.run(stand_at(target, starts))
    short = {"transaction_timeout_ms": 10_000}
    fleet = Fleet("edge", east, target, tmp_path, topics=["orders:12", "clicks:12"], mirror=short)
    edge = Edge(fleet, target)
    with fleet.sync(), traffic(address(east), fleet.topics, rate=CALM) as load:
        with fleet.mirror("killed") as mirror:
            taken = freeze_at_the_end(mirror, edge)
            mirror.kill()
        with fleet.mirror("slept") as mirror:
            evidence = [crossed(edge, taken, "take-over in a last epoch")]
            slept = freeze_at_the_end(mirror, edge)
            wait_until(
                lambda: not edge.open_at_the_end(),
                deadline_s=30,
                what="the coordinator to end what the sleeper left open",
            )
            mirror.thaw()
            evidence.append(crossed(edge, slept, "time-out in a last epoch"))
            wait_until(lambda: len(edge.rolled_over()) == SLOTS, deadline_s=60, what="all to cross")
            by_commit = SLOTS - len({*taken, *slept})
            evidence.append(
                Evidence("commit of the last epoch", by_commit > 0, f"{by_commit} slots")
            )
            load.stop()
            report = fleet.judged(evidence, records=CALM * 5)
    for each in evidence:
        print(each)

    assert report.verdict is Verdict.PASS
