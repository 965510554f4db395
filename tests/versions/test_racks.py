"""A fleet with a rack fetches from the replica of that rack; from leaders when that one dies."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from services.local.region import RegionSpec
from tests.faultkit.asked import REACHED
from tests.faultkit.hold import hold_sync
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.judge.verdict import Evidence, Verdict
from tests.versions.kit import SECONDS, Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.conftest import Regions
    from tests.faultkit.process import ServiceProcess

PARTITIONS: Final = 24
RATE: Final = 5_000
"""Three copies of everything, on a machine that runs four brokers."""
FOLLOWERS: Final = 12
"""Fewer than the 16 of 24 partitions that a broker of three follows, when leaders are even."""
SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def in_racks(region: Region) -> None:
    """Give each broker its rack; a region's brokers differ in nothing else."""
    for broker in region.brokers:
        with (broker.directory / "server.properties").open("a", encoding="utf-8") as file:
            file.write(f"broker.rack=rack-{broker.node_id}\n")
    for broker in region.brokers:
        broker.kill()
    region.start()
    region.wait_ready()


def from_replicas(mirror: ServiceProcess) -> int:
    slots = mirror.status()["slots"]
    assert isinstance(slots, list)
    return sum(slot["from_replicas"] for slot in slots)


@pytest.mark.timeout(400)
def test_records_come_from_the_replica_of_the_rack_and_from_leaders_when_it_dies(
    west: Region, regions: Regions, tmp_path: Path
) -> None:
    selector = {"replica.selector.class": SELECTOR}
    (east,) = regions(RegionSpec(name="racks", brokers=3, extra=selector, heap_mb=384))
    in_racks(east)
    rack = {"east": {"rack": "rack-3"}}
    fleet = Fleet("racks", east, west, tmp_path, topics=[f"orders:{PARTITIONS}"], clusters=rack)
    with (
        fleet.sync(),
        traffic(address(east), fleet.topics, rate=RATE) as load,
        fleet.mirror() as mirror,
    ):
        began = time.monotonic()
        near = wait_until(
            lambda: found if (found := from_replicas(mirror)) >= FOLLOWERS else None,
            deadline_s=60,
            what="partitions fetched from the replica of the rack",
        )
        hold_sync(SECONDS / 2, reason="load fetched from a replica")
        east.broker(3).kill()
        wait_until(lambda: from_replicas(mirror) == 0, deadline_s=60, what="leaders to be asked")
        hold_sync(SECONDS / 2, reason="load fetched from leaders")
        east.broker(3).restart()
        back = wait_until(
            lambda: found if (found := from_replicas(mirror)) >= FOLLOWERS else None,
            deadline_s=90,
            what="the replica to be used again",
        )
        load.stop()
        evidence = [Evidence("rack", bit=bool(near and back), detail=f"{near}, {back} again")]
        report = fleet.judged(
            evidence, records=int(REACHED * RATE * SECONDS), ran_s=time.monotonic() - began
        )

    assert report.verdict is Verdict.PASS
