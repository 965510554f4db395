"""L5: the line was cut so long that the source deleted records that were not copied.

MirrorMaker 2: goes on at the first record that is left, silently. Here: it is foretold, and then by
default the partition stands still and names the exact range; its neighbours do not notice.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from mirrorfleet.core.ids import FleetName
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.standing import newest_progress
from tests.faultkit.process import service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import faults_of
from tests.integration.mirror.making import create, numbered, put, values
from tests.judge.verdict import Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorfleet.records.progress import Progress
    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess

NEAR_S: Final = 3_600.0
"""`MirrorfleetRetentionNear` fires below it, for what has waited for a minute."""
GAUGE: Final = r'^mirrorfleet_lag_%s\{link="east->west",topic="([^"]+)"\} (\S+)$'


def overtaken_soon(lag: ServiceProcess) -> set[str]:
    """Topics in which something waits that retention is near to, by the gauges of the alert."""
    text = lag.get("/metrics").text
    waits, left = (
        {topic: float(value) for topic, value in re.findall(GAUGE % name, text, re.MULTILINE)}
        for name in ("seconds", "headroom_seconds")
    )
    return {topic for topic in waits.keys() & left if waits[topic] > 0 and left[topic] < NEAR_S}


def is_told(target: Region, fleet: str, copied: int) -> bool:
    """Whether a worker has said that so many offsets are copied."""

    async def look() -> list[Progress]:
        async with Cluster(target.settings()) as cluster:
            return list(await newest_progress(cluster, FleetName(fleet)))

    return any(one.next_source == copied for each in asyncio.run(look()) for one in each.partitions)


def delete_up_to(region: Region, topic: str, offset: int) -> None:
    """Delete as retention does: everything below an offset."""
    admin = AdminClient({"bootstrap.servers": address(region)})
    for each in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        each.result(20)


@pytest.mark.timeout(300)
def test_l5_the_missing_range_is_named_and_nothing_is_skipped(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("l5", east, west, tmp_path, topics=["other:1"])
    create(east, "l5-short", 1, retention_ms=round(NEAR_S * 1000))
    create(east, "l5-other", 1)
    put(east, "l5-short", numbered(0, 100))
    with fleet.sync():
        with fleet.mirror():
            wait_until(
                lambda: len(values(west, "east.l5-short")) == 100,
                deadline_s=30,
                what="the first copies",
                ignoring=(AssertionError,),
            )
            wait_until(lambda: is_told(west, "l5", 100), deadline_s=30, what="word of them")
        # the worker is away, as after a cut, and records come and go
        for topic in ("l5-short", "l5-other"):
            put(east, topic, numbered(100, 300))
        with service("lag", estate=fleet.estate, target="west", logs=fleet.logs) as lag:
            near = wait_until(lambda: overtaken_soon(lag), deadline_s=60, what="the warning")
        delete_up_to(east, "l5-short", 250)
        with fleet.mirror() as mirror:
            faults = wait_until(lambda: faults_of(mirror), deadline_s=60, what="the fault")
            report = fleet.judged(records=100)

    assert near == {"l5-short"}
    assert set(faults) == {("l5-short", 0)}
    assert "[100, 250)" in faults["l5-short", 0]
    assert values(west, "east.l5-short") == [b"%020d" % number for number in range(100)]
    assert report.verdict is Verdict.PASS
