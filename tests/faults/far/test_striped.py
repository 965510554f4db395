"""Old backlog from far away over many connections, and a worker that dies in the middle of it.

The source is 50 ms away with 200 KB under way on a connection: one of them brings 4 MB/s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from services.local.region import RegionSpec
from tests.bench.measure import Ends
from tests.bench.workloads import Workload, create, fill
from tests.faultkit.bites import abort_evidence, kill_in_transaction
from tests.faultkit.estate import write_estate
from tests.faultkit.far import far_pair
from tests.faultkit.process import service
from tests.faultkit.proxy import Line
from tests.faultkit.regions import access, address, data_directories
from tests.faultkit.waiting import wait_until
from tests.judge.judging import Copy, Pair, judge
from tests.judge.reading import At
from tests.judge.render import render
from tests.judge.verdict import Evidence, Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faultkit.bites import OpenAt
    from tests.faultkit.far import FarRegion
    from tests.faultkit.process import ServiceProcess

FAR: Final = Line(delay_s=0.025, window=200_000)
BACKLOG: Final = Workload(name="far", partitions=2, record_bytes=1_000, megabytes=500)
MANY: Final = 8
"""Connections for fetching: striped beyond doubt."""


def opened(region: FarRegion) -> int:
    """Connections through the gates now."""
    return sum(gate.seen().open for gate in region.gates.values())


def fill_far(east: FarRegion) -> None:
    """Make the backlog; from then on the source is far away."""
    source = access(east.region)
    create(source, "far", BACKLOG.partitions)
    fill(source, "far", BACKLOG)
    for gate in east.gates.values():
        gate.set(up=FAR, down=FAR)


def kill_striped(
    east: FarRegion, west: FarRegion, mirror: ServiceProcess
) -> tuple[list[OpenAt], Evidence]:
    """Kill it in a transaction while it fetches over many connections: what it left, and when."""
    before = opened(east)
    wait_until(
        lambda: opened(east) >= before + MANY, deadline_s=30, what="a fetch over many connections"
    )
    target = access(west.region)
    copied = [At("east.far", number) for number in range(BACKLOG.partitions)]
    left_open = kill_in_transaction(mirror, target, copied, deadline_s=30)
    at_kill = Ends(target, "east.far", BACKLOG.partitions).total()
    return left_open, Evidence(
        "in the middle",
        bit=0 < at_kill < BACKLOG.records * 3 // 4,
        detail=f"{at_kill} of {BACKLOG.records} records at the kill",
    )


@pytest.mark.timeout(240)
def test_a_worker_killed_in_the_middle_of_a_striped_fetch_loses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    specs = [RegionSpec(name=name) for name in ("east", "west")]
    with far_pair(*specs) as pair:
        east, west = pair["east"], pair["west"]
        fill_far(east)
        target = access(west.region)
        estate = write_estate(
            tmp_path,
            source=east.bootstrap,
            target=address(west.region),
            fleet="far",
            topics=["far"],
            slots=2,
        )
        with service("sync", estate=estate, target="west", logs=tmp_path):
            with service("mirror", estate=estate, target="west", logs=tmp_path) as mirror:
                mirror.wait_ready(60)
                left_open, middle = kill_striped(east, west, mirror)
            ends = Ends(target, "east.far", BACKLOG.partitions)
            with service("mirror", estate=estate, target="west", logs=tmp_path):
                wait_until(
                    lambda: ends.total() >= BACKLOG.records, deadline_s=120, what="the whole copy"
                )
        pairs = [Pair("far", "east.far")]
        copy = Copy(source=access(east.region), target=target, pairs=pairs)
        killed = abort_evidence("kill -9", left_open, data_directories(west.region))
        report = judge(copy, evidence=[killed, middle])

    print(render(report))
    assert report.verdict is Verdict.PASS, render(report)
