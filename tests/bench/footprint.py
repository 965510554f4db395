"""Bytes a day that positions and segments take while many partitions trickle.

Measured on the target's disk before any cleaning: what the fleet writes, not what compaction
leaves. The rate is that of a settled run, so the start is not counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.workloads import create
from tests.faultkit.estate import write_estate
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import service
from tests.faultkit.regions import access, address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

DAY_S = 86_400
COPYING_S = 120.0
LEAST_BYTES = 40
"""Of segments, for a partition that is copied: a few commits."""
SETTLE_S = 10.0
MEASURE_S = 30.0
RECORDS_A_PARTITION = 2
SLOTS = 16


def run(east: Region, west: Region, directory: Path, *, partitions: int) -> None:
    """Trickle, measure, print."""
    topic, fleet = "trickle", "footprint"
    estate = write_estate(
        directory / fleet,
        source=address(east),
        target=address(west),
        fleet=fleet,
        topics=[topic],
        slots=SLOTS,
    )
    create(access(east), topic, partitions)
    logs = directory / fleet
    rate = float(RECORDS_A_PARTITION * partitions)
    with (
        service("sync", estate=estate, target="west", logs=logs),
        service("mirror", estate=estate, target="west", logs=logs) as mirror,
        traffic(address(east), [f"{topic}:{partitions}"], rate=rate),
    ):
        mirror.wait_ready(60)
        wait_until(
            lambda: stored(west, fleet, "segments") > partitions * LEAST_BYTES,
            deadline_s=COPYING_S,
            what="every partition to be copied",
        )
        hold_sync(SETTLE_S, reason="until every partition trickles and commits settle")
        before = {kind: stored(west, fleet, kind) for kind in KINDS}
        hold_sync(MEASURE_S, reason="the measured time")
        after = {kind: stored(west, fleet, kind) for kind in KINDS}
    total = 0.0
    for kind in KINDS:
        a_day = (after[kind] - before[kind]) / MEASURE_S * DAY_S
        total += a_day
        print(
            f"{kind}: {a_day / 1e9:.2f} GB a day at {partitions} partitions, {rate:.0f} records/s"
        )
    print(f"together: {total / 1e9:.2f} GB a day", flush=True)


KINDS = ("positions", "segments")


def stored(region: Region, fleet: str, kind: str) -> int:
    """Bytes in the log files of a control topic."""
    name = f"__mirrorfleet.{fleet}.{kind}-"
    return sum(
        file.stat().st_size
        for folder in region.directory.rglob(f"{name}*")
        if folder.is_dir()
        for file in folder.glob("*.log")
    )
