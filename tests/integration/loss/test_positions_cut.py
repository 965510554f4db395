"""Positions or segments alone lose their last records: an unclean election of one topic, no other.

    copies      100 | 5 | 5 | 5 ...     broker 1
    segments    the same                brokers 1, 2 and 3
    positions   100 |                   brokers 2 and 3, and 3 was behind

Who goes on from the position that is left copies records twice that are there already. So it is
when segments were packed meanwhile, and all of them freed, as builds before did. Who goes on with
segments that are shorter than positions copies all once, but groups cannot be placed by them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from mirrorfleet.core.ids import FleetName, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping.packing import Packer
from mirrorfleet.mapping.store import KafkaMapStore
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.runtime.clock import SystemClock
from services.local.region import Region, RegionSpec
from tests.faultkit.regions import QUICK_TO_NOTICE
from tests.faultkit.waiting import wait_until
from tests.integration.loss.conftest import Drill
from tests.integration.loss.test_elections import (
    APART,
    BEHIND,
    KEPT,
    LEADER,
    LOST,
    PORTIONS,
    UNCLEAN,
    copy_through,
    ends,
    forget,
    wait_forgotten,
)
from tests.integration.mirror.fleet import FLOWING_S, Fleet
from tests.integration.mirror.making import create, create_on
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Regions

TOPIC: Final = "pc-orders"
LATER: Final = range(150, 170)
LAST: Final = range(170, 190)
SLOT: Final = SlotNumber(0)


async def pack(target: Region, name: str) -> None:
    """Have all of the map in the archive, and no segment."""
    async with Cluster(target.settings()) as cluster:
        store = KafkaMapStore(cluster, FleetName(name), SystemClock())
        try:
            assert (await Packer(store, SLOT).pack()).segments
            await store.free(SLOT, (await store.bounds(ControlKind.SEGMENTS, SLOT)).end)
        finally:
            store.close()


@pytest.mark.timeout(600)
def test_segments_that_an_unclean_election_took_are_told_of(
    east: Region, regions: Regions, tmp_path: Path
) -> None:
    (trio,) = regions(RegionSpec(name="trio", brokers=3, extra=QUICK_TO_NOTICE))
    topic = f"{TOPIC}-map"
    rules: list[dict[str, object]] = [{"name": "all", "topics": [topic]}]
    fleet = Fleet("cutmap", east, trio, tmp_path, rules=rules, slots=1)
    segments = fleet.control("segments")
    create_on(trio, segments, [LEADER, BEHIND], **UNCLEAN)
    create_on(trio, f"east.{topic}", [APART])
    create(east, topic)
    with fleet.sync():
        with fleet.mirror("a") as mirror:
            drill = Drill(fleet, mirror)
            copy_through(drill, (topic,), [KEPT])
            trio.broker(BEHIND).stop()
            copy_through(drill, (topic,), [KEPT, LOST])
            before = ends(trio, segments)
            mirror.kill()
            forget(trio)
            assert (found := wait_forgotten(trio, (segments,), before)).bit, found
            trio.broker(LEADER).restart()
        with fleet.mirror("b") as mirror:
            (told,) = wait_until(
                lambda: fleet.events("map-short"), deadline_s=FLOWING_S, what="word of the map"
            )
            copy_through(Drill(fleet, mirror), (topic,), [KEPT, LOST, LATER])
    assert f"the copies to east.{topic}-0 [10" in str(told["detail"])  # behind the first hundred
    assert fleet.judged([topic]).verdict is Verdict.PASS


@pytest.mark.timeout(600)
@pytest.mark.parametrize("owner", ["another", "same", "packed"])
def test_positions_that_an_unclean_election_took_repeat_nothing(
    owner: str, east: Region, regions: Regions, tmp_path: Path
) -> None:
    (trio,) = regions(RegionSpec(name="trio", brokers=3, extra=QUICK_TO_NOTICE))
    topic = f"{TOPIC}-{owner}"
    rules: list[dict[str, object]] = [{"name": "all", "topics": [topic]}]
    fleet = Fleet(f"cut{owner}", east, trio, tmp_path, rules=rules, slots=1)
    positions = fleet.control("positions")
    create_on(trio, positions, [LEADER, BEHIND], cleanup_policy="compact", **UNCLEAN)
    create_on(trio, f"east.{topic}", [APART])
    create(east, topic)
    with fleet.sync():
        with fleet.mirror("a") as mirror:
            drill = Drill(fleet, mirror)
            copy_through(drill, (topic,), [KEPT])
            trio.broker(BEHIND).stop()
            for count in range(len(PORTIONS)):
                copy_through(drill, (topic,), [KEPT, *PORTIONS[: count + 1]])
            before = ends(trio, positions)
            if owner == "packed":
                asyncio.run(pack(trio, fleet.name))
            if owner != "same":
                mirror.kill()
            forget(trio)
            assert (found := wait_forgotten(trio, (positions,), before)).bit, found
            trio.broker(LEADER).restart()
            if owner == "same":
                copy_through(drill, (topic,), [KEPT, LOST, LATER])
                mirror.kill()
            else:
                drill.fill(topic, LATER.start, LATER.stop)
        with fleet.mirror("b") as mirror:
            copy_through(Drill(fleet, mirror), (topic,), [KEPT, LOST, LATER, LAST])
            if owner != "same":
                wait_until(
                    lambda: fleet.events("positions-rebuilt"),
                    deadline_s=FLOWING_S,
                    what="word of positions that were made again",
                )
    assert fleet.judged([topic]).verdict is Verdict.PASS
