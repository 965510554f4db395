"""What checkpoint does when a cluster is away, and when the map cannot be believed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mirrorfleet.core.ids import ClusterAlias, Link, PartitionIdentity, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_writer import Entry
from mirrorfleet.records import catalog
from mirrorfleet.records.archive import Block, encode
from mirrorfleet.records.catalog import CatalogLink, CatalogPartition
from mirrorfleet.records.segments import Segment, encode_segment
from mirrorfleet.records.topics import ControlKind
from services.cli.__main__ import main
from services.local.region import Region
from tests.faultkit.estate import write_estate
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.checkpoint.stored_map import SLOT, StoredMap
from tests.integration.mirror.making import create
from tests.unit.offsets.making import run_of
from tests.unit.records.making import identity

QUICK = {"checkpoint": {"period_s": 0.5, "request_s": 2}}
EAST, WEST = ClusterAlias("east"), ClusterAlias("west")


def reasons(process: ServiceProcess) -> dict[str, str]:
    found: dict[str, str] = process.get("/readyz").json()["reasons"]
    return found


@pytest.mark.timeout(240)
def test_checkpoint_is_red_while_a_cluster_is_away_and_green_again(
    east: Region, west: Region, tmp_path: Path
) -> None:
    estate = write_estate(
        tmp_path,
        source=address(east),
        target=address(west),
        fleet="chk-away",
        topics=["chk-away-.*"],
        rule={"groups": ["chk-away-.*"]},
        services=QUICK,
    )
    create(east, "chk-away-orders")
    with service("sync", estate=estate, target="west", logs=tmp_path) as sync:
        sync.wait_ready(60)
    with service("checkpoint", estate=estate, target="west", logs=tmp_path) as process:
        process.wait_ready(60)

        def red() -> bool:
            found = reasons(process)
            return set(found) == {"link east->west"} and "(east)" in found["link east->west"]

        east.broker(1).pause()
        try:
            wait_until(red, deadline_s=60, what="red without a source, and for nothing else")
        finally:
            east.broker(1).resume()
        process.wait_ready(60)

        west.broker(1).pause()
        said = wait_until(
            lambda: reasons(process).get("offset map"), deadline_s=20, what="red without a target"
        )
        assert "(west)" in (said or "")
        west.broker(1).resume()
        process.wait_ready(60)


NEWER = b"\x07"
FAULTS = ["segment of a newer build", "segments that contradict", "block of a newer build"]


def planted(fault: str, one: PartitionIdentity) -> tuple[ControlKind, list[Entry], str]:
    """Where, what, and the words that it must be told in."""
    if fault == "block of a newer build":
        key, value = encode(Block(one, (run_of(0, 5, 0),)))
        return ControlKind.ARCHIVE, [(key, NEWER + value[1:])], "archive block: version 7"
    runs = [run_of(0, 5, 0), run_of(7, 9, 3)]
    values = [encode_segment(Segment(SLOT, 1, ((one, (run,)),))) for run in runs]
    if fault == "segments that contradict":
        return ControlKind.SEGMENTS, [(None, one) for one in values], "disagree"
    return ControlKind.SEGMENTS, [(None, NEWER + values[0][1:])], "segment: version 7 is not known"


async def a_copied_partition(stored_map: StoredMap, east: Region) -> PartitionIdentity:
    """A catalog that says so of orders-0."""
    async with Cluster(east.settings()) as source:
        link = CatalogLink(
            link=Link(EAST, WEST),
            source_cluster=source.cluster_id,
            target_cluster=stored_map.cluster.cluster_id,
            slots=(SLOT,),
        )
    entry = CatalogPartition(
        identity=identity(0, cluster=link.source_cluster),
        link=link.link,
        source_topic="orders",
        target_topic="east.orders",
        slot=SLOT,
    )
    await stored_map.put(
        ControlKind.CATALOG, SlotNumber(0), catalog.encode(link), catalog.encode(entry)
    )
    return entry.identity


@pytest.mark.timeout(120)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_map_that_cannot_be_believed_is_answered_from_by_nobody(
    stored_map: StoredMap,
    east: Region,
    west: Region,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fault: str,
) -> None:
    one = await a_copied_partition(stored_map, east)
    kind, entries, said = planted(fault, one)
    await stored_map.put(kind, SLOT, *entries)
    estate = write_estate(
        tmp_path,
        source=address(east),
        target=address(west),
        fleet=stored_map.name,
        topics=["orders"],
    )
    with service("checkpoint", estate=estate, target="west", logs=tmp_path) as process:
        assert process.wait_exit(60) == 1
        assert "error: mirrorfleet checkpoint: " in process.text()
        assert said in process.text()
        assert "Traceback" not in process.text()
    arguments = ["offsets", "translate", "orders-0", "5", "--target", "west"]
    assert await asyncio.to_thread(main, [*arguments, "--estate", str(estate)]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.startswith("error: "), said in shown.err) == ("", True, True)
