"""Ids that expire while a fleet has nothing to copy, with brokers that forget within seconds.

A coordinator forgets a transactional id that nobody used, a partition a producer id. The first is
answered as if somebody else had the id, so the slot is taken again, on the group's word.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.inspection import ActiveProducer, list_transactions
from mirrorfleet.kafka.left_open import producers_in
from services.local.region import Region, RegionSpec
from tests.conftest import running
from tests.faultkit.hold import hold_sync
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import create, numbered, put
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXPIRES_S: Final = 4
FORGETS: Final = {
    "transactional.id.expiration.ms": str(EXPIRES_S * 1000),
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": "2000",
    "producer.id.expiration.check.interval.ms": "500",
}
PARTITIONS: Final = 6
SLOTS: Final = 2
BURST: Final = 3_000
BURSTS: Final = 2


@pytest.fixture(scope="module", params=["4.3.0", "3.9.1"])
def forgetful(request: pytest.FixtureRequest) -> Iterator[Region]:
    """A target that forgets ids in seconds: with transactions v2, and with v1."""
    spec = RegionSpec(name="forgetful", kafka=request.param, extra=FORGETS)
    for (started,) in running(spec):
        yield started


def known_ids(region: Region, fleet: str) -> dict[str, int]:
    """Main ids of the slots that the coordinator still knows, with their producer ids."""

    async def ask() -> dict[str, int]:
        async with Cluster(region.settings()) as cluster:
            found = await list_transactions(cluster)
        prefix = f"mirrorfleet.{fleet}.east."
        return {
            each.transactional_id: each.producer_id
            for each in found
            if each.transactional_id.startswith(prefix) and ".spare-" not in each.transactional_id
        }

    return asyncio.run(ask())


def known_producers(region: Region, fleet: Fleet) -> list[ActiveProducer]:
    """Producers that the brokers still know in the copies."""

    async def ask() -> list[ActiveProducer]:
        async with Cluster(region.settings()) as cluster:
            found = await producers_in(cluster, [TopicPartition(*at) for at in fleet.copies])
        return [each for some in found.values() for each in some]

    return asyncio.run(ask())


def burst(east: Region, topic: str, number: int) -> None:
    """Some records for every partition."""
    first = number * BURST
    for partition in range(PARTITIONS):
        put(east, topic, numbered(first, first + BURST, size=100, partition=partition))


@pytest.mark.timeout(200)
def test_slots_that_were_idle_too_long_are_taken_again_and_nothing_is_lost_or_repeated(
    east: Region, forgetful: Region, tmp_path: Path
) -> None:
    name = f"expired{forgetful.spec.kafka[0]}"
    fleet = Fleet(name, east, forgetful, tmp_path, topics=["idle:6"], slots=SLOTS)
    topic = f"{name}-idle"
    create(east, topic, PARTITIONS)
    evidence = []
    with fleet.sync(), fleet.mirror():
        for number in range(BURSTS):
            burst(east, topic, number)
            before = wait_until(
                lambda: known_producers(forgetful, fleet),
                deadline_s=30,
                what="producers in the copies",
                ignoring=(BrokerError,),
            )
            assert fleet.judged().verdict is Verdict.PASS
            wait_until(
                lambda: not known_ids(forgetful, name), deadline_s=30, what="the ids to expire"
            )
            evidence.append(Evidence("transactional ids expired", bit=True))
            wait_until(
                lambda: not known_producers(forgetful, fleet),
                deadline_s=30,
                what="the producer ids to expire in all copies",
            )
            told = f"{len(before)} were known in the copies"
            evidence.append(Evidence("producer ids expired", bit=True, detail=told))
        burst(east, topic, BURSTS)
        report = fleet.judged(evidence, records=PARTITIONS * BURST * (BURSTS + 1))

    assert report.verdict is Verdict.PASS


@pytest.mark.timeout(200)
def test_keep_alives_keep_the_ids_of_idle_slots(
    east: Region, forgetful: Region, tmp_path: Path
) -> None:
    name = f"kept{forgetful.spec.kafka[0]}"
    fleet = Fleet(
        name,
        east,
        forgetful,
        tmp_path,
        topics=["idle:6"],
        slots=SLOTS,
        mirror={"keep_alive_s": EXPIRES_S / 4},
    )
    topic = f"{name}-idle"
    create(east, topic, PARTITIONS)
    with fleet.sync(), fleet.mirror():
        burst(east, topic, 0)
        assert fleet.judged().verdict is Verdict.PASS
        before = known_ids(forgetful, name)
        hold_sync(EXPIRES_S * 3, reason="idle three times as long as ids live")
        after = known_ids(forgetful, name)
        burst(east, topic, 1)
        report = fleet.judged(records=PARTITIONS * BURST * 2)

    assert len(before) == SLOTS
    assert after == before
    assert report.verdict is Verdict.PASS
