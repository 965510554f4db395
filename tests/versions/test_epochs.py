"""The end of the epoch range: 32,766 commits of v2, or as many new owners, and then a new id.

Crossed by commit, by a transaction that times out and by another owner, from each of the last
epochs; then by a whole fleet under load. The ids are made to stand there (`doctored.py`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from mirrorfleet.core.errors import BrokerError, FencedError
from mirrorfleet.core.ids import ClusterAlias, FleetName, ProducerIdentity, SlotNumber
from mirrorfleet.core.names import transactional_id
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.inspection import (
    OpenTransaction,
    TransactionDescription,
    describe_transactions,
    list_transactions,
)
from mirrorfleet.kafka.transactions import TransactionVersion
from services.local.region import Region, RegionSpec
from tests.conftest import running
from tests.contract.kafka.making import new_topic
from tests.contract.kafka.writing import Writer, until_committed, writer_on
from tests.faultkit.bites import ALREADY_ENDING_S
from tests.faultkit.hold import hold_sync
from tests.faultkit.markers import Marker, MarkerType, markers
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
FLEET_TIMES_OUT_MS: Final = 15_000
"""Longer than the next owner waits for the session of one that died (6 s) and needs to start: what
is aborted sooner was taken over."""
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


class Crossing(NamedTuple):
    """How a slot went over the end, as the markers on the target tell."""

    last: Marker
    """Of the id that it came with."""
    waited_ms: int
    """After the marker before: its transaction was open for less."""
    first: Marker
    """Of the next id, in the slot's positions."""

    @property
    def cause(self) -> str:
        """One of `CAUSES`, or else a take that met no open transaction.

        With v2 a marker has the epoch after that of its transaction, so only the commit of the last
        epoch has one behind the range; an id that was taken anew does not begin with its first one.
        """
        if self.last.type is MarkerType.ABORT:
            return "time-out" if self.waited_ms >= FLEET_TIMES_OUT_MS else "take-over"
        by_commit = self.last.producer_epoch > LAST_EPOCH and self.first.producer_epoch == 1
        return "commit" if by_commit else "a take"


class Edge:
    """The slots of a fleet as their coordinator and their markers have them.

    `version`: of transactions. `came_with`: the ids that the slots were given.
    """

    def __init__(
        self, fleet: Fleet, region: Region, came_with: dict[str, ProducerIdentity], version: int
    ) -> None:
        self.fleet, self.region = fleet, region
        self.came_with, self.version = came_with, version
        self.names = [*came_with]

    def known(self) -> dict[str, OpenTransaction]:
        """Each slot that the coordinator knows."""

        async def ask() -> list[OpenTransaction]:
            async with Cluster(self.region.settings()) as cluster:
                return await list_transactions(cluster)

        found = {each.transactional_id: each for each in asyncio.run(ask())}
        return {name: found[name] for name in self.names if name in found}

    def open_at_the_end(self) -> list[str]:
        """Slots whose open transaction is in an epoch that no next owner has another one behind.

        Whoever else ends it takes an epoch to fence its owner: that is the last one, or behind it.
        """
        return [
            name
            for name, each in self.known().items()
            if each.state == "Ongoing"
            and each.producer_id >= FAR_IDS
            and self.epoch_of(name) >= LAST_EPOCH - 1
        ]

    def epoch_of(self, name: str) -> int:
        """The epoch in use: that of the last marker, which with v2 is the next transaction's."""
        found = self.of_positions(name)
        return found[-1].producer_epoch if found else 0

    def of_positions(self, name: str) -> list[Marker]:
        """Markers of all transactions of a slot that were committed."""
        return markers(self.fleet.data, self.fleet.control("positions"), self.names.index(name))

    def wait_crossed(self, names: Sequence[str]) -> None:
        """Wait until these have a new producer id, and have written positions with it."""
        wait_until(
            lambda: set(names) <= set(self.crossings()),
            deadline_s=60,
            what=f"{names} to go over the end",
        )

    def crossings(self) -> dict[str, Crossing]:
        """How slots went over the end: those whose next id has written positions."""
        copies = [mark for at in self.fleet.copies for mark in markers(self.fleet.data, *at)]
        found = {}
        for name in self.names:
            of_slot = self.of_positions(name)
            behind = [mark for mark in of_slot if mark.producer_id < FAR_IDS]
            own = self.came_with[name].producer_id
            mine = [mark for mark in (*copies, *of_slot) if mark.producer_id == own]
            if not behind:
                continue
            last = max(mine, key=lambda mark: mark.producer_epoch)
            before = max(m.time_ms for m in mine if m.producer_epoch < last.producer_epoch)
            found[name] = Crossing(last, last.time_ms - before, behind[0])
        return found

    def evidence(self, taken: Sequence[str], slept: Sequence[str]) -> Iterator[Evidence]:
        """That slots crossed by each cause: of those that were open at the end when their worker
        was killed, of those when it was put to sleep, of any by a commit (v1 keeps its epoch).
        """
        found = self.crossings()
        asked = {"take-over": taken, "time-out": slept}
        if self.version == TransactionVersion.V2:
            asked["commit"] = self.names
        for cause, names in asked.items():
            some = [found[name] for name in names if name in found and found[name].cause == cause]
            detail = f"{len(some)} of {len(names)} slots crossed by it: {some[:1]}"
            yield Evidence(f"{cause} in a last epoch", bool(some), detail)


def slots_of(fleet: str) -> list[str]:
    return [
        transactional_id(FleetName(fleet), ClusterAlias("east"), SlotNumber(number))
        for number in range(SLOTS)
    ]


def starts_of(fleet: str, version: int) -> dict[str, int]:
    """Where the slots stand at first: one after the other comes to the end.

    With v2 by commits, some seconds apart. With v1 by takes alone, of one epoch, or two where a
    transaction is open: two slots are in a last epoch after the first one, more after the second.
    """
    slots = enumerate(slots_of(fleet))
    if version == TransactionVersion.V1:
        return {name: LAST_EPOCH - 2 - n // 2 for n, name in slots}
    return {name: LAST_EPOCH - 8 * (n + 1) for n, name in slots}


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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", [pytest.param(1, marks=pytest.mark.long), 2])
def test_a_fleet_crosses_the_end_by_commit_time_out_and_take_over_and_loses_nothing(
    east: Region, regions: Regions, tmp_path: Path, version: int
) -> None:
    """With v1 by the last two."""
    features = {"transaction.version": version}
    (target,) = regions(RegionSpec(name="edge", extra=QUICK, features=features))
    name, topics = f"edge{version}", ["orders:12", "clicks:12"]
    came_with = asyncio.run(stand_at(target, starts_of(name, version)))
    times_out = {"transaction_timeout_ms": FLEET_TIMES_OUT_MS}
    fleet = Fleet(name, east, target, tmp_path, topics=topics, mirror=times_out)
    edge = Edge(fleet, target, came_with, version)
    with fleet.sync(), traffic(address(east), fleet.topics, rate=CALM) as load:
        with fleet.mirror("killed") as mirror:
            taken = freeze_at_the_end(mirror, edge)
            mirror.kill()
        with fleet.mirror("slept") as mirror:
            edge.wait_crossed(taken)
            slept = freeze_at_the_end(mirror, edge)
            wait_until(
                lambda: not edge.open_at_the_end(),
                deadline_s=60,
                what="the coordinator to end what the sleeper left open",
            )
            mirror.thaw()
            edge.wait_crossed(edge.names if version == TransactionVersion.V2 else slept)
            load.stop()
            evidence = [*edge.evidence(taken, slept)]
            report = fleet.judged(evidence, records=CALM * 5)
    for each in evidence:
        print(each)

    assert report.verdict is Verdict.PASS
