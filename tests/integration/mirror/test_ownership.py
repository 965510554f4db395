"""A worker never takes slots whose positions it cannot read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlWriter
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import Fleet
from tests.integration.mirror.making import create, numbered, put
from tests.integration.mirror.stored import stored

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

SLOTS = 4
PARTITIONS = 8


def a_fleet(name: str, east: Region, west: Region, directory: Path) -> Fleet:
    rules = [{"name": "all", "topics": [f"{name}-.*"]}]
    return Fleet(name, east, west, directory, rules=rules, slots=SLOTS)


def sizes(region: Region, topics: list[str]) -> dict[str, int]:
    """Batches of each topic's partitions, control and aborted ones too."""
    return {topic: sum(len(stored(region, topic, n)) for n in range(SLOTS)) for topic in topics}


async def test_positions_of_an_unknown_version_stop_the_worker_before_it_writes_anything(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = a_fleet("newer", east, west, tmp_path)
    topic, copy = "newer-orders", "east.newer-orders"
    create(east, topic, SLOTS)
    put(east, topic, [r for n in range(SLOTS) for r in numbered(0, 10, partition=n)])
    with fleet.sync() as sync:
        wait_until(lambda: sync.status()["partitions"] == SLOTS, deadline_s=30, what="the catalog")
    written = [copy, *map(fleet.control, ("positions", "segments", "progress", "events"))]
    async with Cluster(west.settings()) as cluster:
        writer = ControlWriter(cluster)
        at = TopicPartition(fleet.control("positions"), SLOTS - 1)
        await writer.write(at, [(b"\x63P", b"\x63 of a newer build")], 1_700_000_000_000)
        writer.close()
    before = sizes(west, written)

    with fleet.mirror() as mirror:
        code = mirror.wait_exit(30)

    assert code == 1
    assert mirror.text().splitlines()[-1] == (
        "error: mirrorfleet mirror: positions key: version 99 is not known to this build (it knows"
        " 1). Run the release that wrote it, or a newer one; nothing was changed."
    )
    assert sizes(west, written) == before
