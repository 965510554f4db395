"""Kafka's TransactionsTest from its facts (tests/kafkatest/tests/core), with mirrors as copiers.

100,000 records in two partitions, of which the set is looked at, and a third of that in one
partition, of which the order is looked at, are copied in transactions of 750 while the brokers or
the copiers are bounced, hard or clean. A read_committed consumer reads along all the time. What it
saw, and what is there at the end, must each be the input.

Kafka bounces one cluster; here the first broker of the source and of the target go together, then
the second ones and the third ones. Records come while things are bounced, or a mirror would be done
before the first bounce.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from services.local.region import RegionSpec
from tests.conftest import running
from tests.faultkit.hold import hold_sync
from tests.faultkit.markers import commit_times
from tests.faultkit.waiting import wait_until
from tests.faults.versions.bars import Along, Copiers, Seeder, Seeds
from tests.integration.mirror.making import read
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region

RECORDS: Final = 100_000
ORDERED: Final = RECORDS // 3
TRANSACTION: Final = 750
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


def bounce_brokers(regions: list[Region], mode: str) -> int:
    """Every broker once, one of each side at a time; gives how many."""
    for together in zip(*(region.brokers for region in regions), strict=True):
        for broker in together:
            (broker.kill if mode == "hard" else broker.stop)()
        if mode == "hard":
            hold_sync(AWAY_S, reason="longer than a broker's session")
        for broker in together:
            broker.start()
        for broker in together:
            broker.wait_ready()
    return sum(len(region.brokers) for region in regions)


def bounce_copiers(fleet: Fleet, copiers: Copiers, mode: str) -> int:
    """Every copier in every round, when there is progress since the last; gives how often."""
    for _ in range(ROUNDS):
        for name in copiers.names:
            wait_progress(fleet)
            copiers.bounce(name, mode)
    return ROUNDS * len(copiers.names)


def wait_progress(fleet: Fleet) -> None:
    """Wait until a hundredth of the records was copied from now on."""
    enough = fleet.copied() + RECORDS // 100
    wait_until(lambda: fleet.copied() >= enough, deadline_s=60, what="progress before a bounce")


def commits(fleet: Fleet) -> int:
    """Transactions of all slots: each has a marker in the slot's partition of the positions."""
    topic = fleet.control("positions")
    return sum(len(commit_times(fleet.data, topic, slot)) for slot in range(SLOTS))


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
            evidence = bounced(how, triples, fleet, copiers, seeder)
            seeder.wait()
            wait_until(lambda: along.count >= RECORDS + ORDERED, deadline_s=SEEN_S, what="all seen")
            report = fleet.judged([evidence], records=RECORDS + ORDERED)

    assert seeder.trouble == []
    assert report.verdict is Verdict.PASS
    for seen in (along.seen, there(fleet, seeds)):
        assert seen[f"east.{name}-order", 0] == list(range(ORDERED))
        sets = [n for at in range(2) for n in seen[f"east.{name}-sets", at]]
        assert sorted(sets) == list(range(RECORDS))


def bounced(
    how: Bounce, regions: list[Region], fleet: Fleet, copiers: Copiers, seeder: Seeder
) -> Evidence:
    """Bounce as asked; it counts only if records still come afterwards."""
    began = time.monotonic()
    if how.target == "brokers":
        times = bounce_brokers(regions, how.mode)
    else:
        times = bounce_copiers(fleet, copiers, how.mode)
    took_s, left = time.monotonic() - began, seeder.left
    held = (RECORDS + ORDERED - left) / max(commits(fleet), 1)
    print(
        f"{how.target}, {how.mode}: {times} bounces in {took_s:.0f} s, {left:,} records to come,"
        f" {held:.0f} records a transaction"
    )
    assert TRANSACTION / 2 < held < TRANSACTION * 2
    return Evidence(f"{times} {how.mode} bounces of {how.target}", left > 0, f"{left} to come")


def there(fleet: Fleet, seeds: list[Seeds]) -> dict[tuple[str, int], list[int]]:
    """What a read_committed consumer finds at the end."""
    return {
        (f"east.{each.topic}", number): [int(record.value or b"-1") for record in partition]
        for each in seeds
        for number, partition in enumerate(
            read(fleet.target, f"east.{each.topic}", each.partitions)
        )
    }
