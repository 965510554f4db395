"""Kafka's TransactionsTest from its facts (tests/kafkatest/tests/core), with mirrors as copiers.

100,000 records in two partitions, and a third of that in one partition, are copied in transactions
of 750 while the brokers or the copiers are bounced, hard or clean. A read_committed consumer reads
along all the time. What it saw, and what is there at the end, must each be the input, in order.

Kafka looks at the order where there is one partition, and then takes a third of the records,
because its copiers deal two partitions to three. A mirror keeps partitions, so all are in order.

Kafka bounces one cluster; here the first broker of the source and of the target go together, then
the second ones and the third ones. Records come while things are bounced, or a mirror would be done
before the first bounce. One bounce at least begins while a transaction is open.
"""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from services.local.region import RegionSpec
from tests.conftest import running
from tests.faultkit.bites import abort_evidence
from tests.faultkit.hold import hold_sync
from tests.faultkit.markers import MarkerType, markers
from tests.faultkit.waiting import wait_until
from tests.faults.versions.bars import Along, Copiers, Seeder, Seeds
from tests.integration.mirror.making import read
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.broker import Broker
    from services.local.region import Region

RECORDS: Final = 100_000
ORDERED: Final = RECORDS // 3
TRANSACTION: Final = 750
LEAST: Final = 0.75
"""Of `TRANSACTION`, for a middling one. A slot begins one so long after the other that this comes
meanwhile; a quarter may wait in a fetch that rests."""
MOST: Final = 1.5
"""The same. They come later, and hold more, while brokers start and after each standstill."""
MOST_BY_KILLS: Final = 3.0
"""Slots stand for a broker's session each time, and the backlog is in half of all transactions.

The mean would be above 2.5 for that alone: 10 to 15 of the 16 s that a round takes nothing can be
committed, whether a partition can be quarantined (format level 2) or not (1)."""
SLOTS: Final = 2
TOPICS: Final = (("sets", 2, RECORDS), ("order", 1, ORDERED))
AWAY_S: Final = 10.0
"""Longer than the session of a broker (9 s): the others have missed it when it comes back."""
ROUNDS: Final = 3
SEEN_S: Final = 120.0


class Bounce(NamedTuple):
    """What is bounced, how, and how long the records take to come: longer than the bounces."""

    target: str
    mode: str
    spread_s: float

    @property
    def commit_ms(self) -> float:
        """So that a transaction of a slot holds about 750 records."""
        return 1000 * self.spread_s * TRANSACTION * SLOTS / (RECORDS + ORDERED)


BOUNCES: Final = [
    Bounce("brokers", "hard", 100.0),
    Bounce("copiers", "hard", 90.0),
    Bounce("brokers", "clean", 100.0),
    Bounce("copiers", "clean", 90.0),
]


@pytest.fixture(scope="module")
def triples() -> Iterator[list[Region]]:
    """A source and a target of three brokers: three copies, two in sync, as in the original."""
    specs = [RegionSpec(name=name, brokers=3, heap_mb=256) for name in ("from", "to")]
    yield from running(*specs)


def bounce_brokers(regions: list[Region], copiers: Copiers, mode: str) -> int:
    """Every broker once, one of each side at a time; gives how many."""
    for together in zip(*(region.brokers for region in regions), strict=True):
        with copiers.frozen(copiers.names[0]):
            for broker in together:
                begin_to_end(broker, mode)
        if mode == "hard":
            hold_sync(AWAY_S, reason="longer than a broker's session")
        else:
            for broker in together:
                broker.stop()
        for broker in together:
            broker.start()
        for broker in together:
            broker.wait_ready()
    return sum(len(region.brokers) for region in regions)


def begin_to_end(broker: Broker, mode: str) -> None:
    """Kill it, or ask it to go: then it is still there for a while."""
    if mode == "hard":
        broker.kill()
    elif (pid := broker.pid) is not None:
        os.kill(pid, signal.SIGTERM)


def bounce_copiers(fleet: Fleet, copiers: Copiers, mode: str) -> int:
    """Every copier in every round, when there is progress since the last; gives how often."""
    for _ in range(ROUNDS):
        for name in copiers.names:
            wait_progress(fleet)
            with copiers.frozen(name):
                copiers.bounce(name, mode)
    return ROUNDS * len(copiers.names)


def wait_progress(fleet: Fleet) -> None:
    """Wait until a hundredth of the records was copied from now on."""
    enough = fleet.copied() + RECORDS // 100
    wait_until(lambda: fleet.copied() >= enough, deadline_s=60, what="progress before a bounce")


def middling(fleet: Fleet) -> float:
    """Records of a middling transaction of a slot: what its copies get of one, all together.

    A copy gets a marker with each transaction that writes to it, so its part is what is between two
    of them. The mean would tell how long everything stood still.
    """
    parts = []
    for at in fleet.copies:
        ends = markers(fleet.data, at.topic, at.partition)
        committed = [pair for pair in pairwise(ends) if pair[1].type is MarkerType.COMMIT]
        parts.append(median(end.offset - before.offset - 1 for before, end in committed))
    return sum(parts) / SLOTS


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("how", BOUNCES, ids=lambda how: f"{how.target} {how.mode}")
def test_a_copy_in_transactions_is_the_input_whatever_is_bounced(
    triples: list[Region], how: Bounce, tmp_path: Path
) -> None:
    source, target = triples
    name = f"{how.target}-{how.mode}"
    fixed = {"commit_shortest_ms": how.commit_ms, "commit_longest_ms": how.commit_ms}
    topics = [f"{topic}:{partitions}" for topic, partitions, _ in TOPICS]
    fleet = Fleet(name, source, target, tmp_path, topics=topics, slots=SLOTS, mirror=fixed)
    fleet.make_topics()
    seeds = [Seeds(f"{name}-{topic}", partitions, n) for topic, partitions, n in TOPICS]
    seeder = Seeder(source, seeds, how.spread_s)
    along = Along(target, [(f"east.{each.topic}", each.partitions) for each in seeds])
    with fleet.sync(), Copiers(fleet, ("one", "two")) as copiers, seeder.running():
        wait_until(lambda: fleet.copied() > 0, deadline_s=60, what="a first copy")
        with along.running():
            evidence = [bounced(how, triples, fleet, copiers, seeder)]
            seeder.wait()
            wait_until(lambda: along.count >= RECORDS + ORDERED, deadline_s=SEEN_S, what="all seen")
            evidence.append(met(how, fleet, copiers))
            report = fleet.judged(evidence, records=RECORDS + ORDERED)

    assert seeder.trouble == []
    assert report.verdict is Verdict.PASS
    assert wrong(along.seen, seeds) == []
    assert wrong(there(fleet, seeds), seeds) == []


def bounced(
    how: Bounce, regions: list[Region], fleet: Fleet, copiers: Copiers, seeder: Seeder
) -> Evidence:
    """Bounce as asked; it counts only if records still come afterwards."""
    began = time.monotonic()
    if how.target == "brokers":
        times = bounce_brokers(regions, copiers, how.mode)
    else:
        times = bounce_copiers(fleet, copiers, how.mode)
    took_s, left, held = time.monotonic() - began, seeder.left, middling(fleet)
    print(
        f"{how.target}, {how.mode}: {times} bounces in {took_s:.0f} s, {left:,} records to come,"
        f" {held:.0f} records in a middling transaction"
    )
    most = MOST_BY_KILLS if (how.target, how.mode) == ("brokers", "hard") else MOST
    assert TRANSACTION * LEAST < held < TRANSACTION * most
    return Evidence(f"{times} {how.mode} bounces of {how.target}", left > 0, f"{left} to come")


def met(how: Bounce, fleet: Fleet, copiers: Copiers) -> Evidence:
    """Whether one began in an open transaction: that of a copier that is killed is aborted."""
    fault = f"a {how.mode} bounce of {how.target} in an open transaction"
    if (how.target, how.mode) == ("copiers", "hard"):
        return abort_evidence(fault, copiers.met, fleet.data)
    return Evidence(fault, bool(copiers.met), f"open at {copiers.met[:3]}")


def wrong(seen: dict[tuple[str, int], list[int]], seeds: list[Seeds]) -> list[tuple[str, int]]:
    """Partitions of the copies that are not the input, each record once and in order."""
    return [
        (f"east.{each.topic}", number)
        for each in seeds
        for number in range(each.partitions)
        if seen[f"east.{each.topic}", number] != [*range(number, each.records, each.partitions)]
    ]


def there(fleet: Fleet, seeds: list[Seeds]) -> dict[tuple[str, int], list[int]]:
    """What a read_committed consumer finds at the end."""
    return {
        (f"east.{each.topic}", number): [int(record.value or b"-1") for record in partition]
        for each in seeds
        for number, partition in enumerate(
            read(fleet.target, f"east.{each.topic}", each.partitions)
        )
    }
